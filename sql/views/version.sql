-- Before 0.2.0 there is no such view. Clients ask it first, and by it say who is older.
CREATE OR REPLACE VIEW dbinfer.version AS
SELECT s.value AS release,
       (SELECT count(*)::integer FROM dbinfer_private.upgrade) AS upgrades
  FROM dbinfer_private.setting s
 WHERE s.name = 'version';
COMMENT ON VIEW dbinfer.version IS 'the release of dbinfer in this database, and how many changes of its tables it has seen';
GRANT SELECT ON dbinfer.version TO PUBLIC;
