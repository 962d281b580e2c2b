-- Before 0.2.0 there is no such view. Clients read it first, to say which side is older.
CREATE OR REPLACE VIEW dbinfer.version AS
SELECT s.value AS release,
       (SELECT count(*)::integer FROM dbinfer_private.upgrade) AS upgrades
  FROM dbinfer_private.setting s
 WHERE s.name = 'version';
COMMENT ON VIEW dbinfer.version IS
  'the release of dbinfer in this database, e.g. SELECT release FROM dbinfer.version';
COMMENT ON COLUMN dbinfer.version.release IS 'release of dbinfer in the database';
COMMENT ON COLUMN dbinfer.version.upgrades IS 'how many changes of its tables it has seen';
GRANT SELECT ON dbinfer.version TO PUBLIC;
