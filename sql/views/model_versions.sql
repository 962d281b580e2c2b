CREATE OR REPLACE VIEW dbinfer.model_versions AS
SELECT v.model AS name,
       v.version,
       coalesce(m.active = v.version, false) AS active,
       v.manifest->>'task' AS task,
       CASE WHEN s.shown THEN ARRAY(SELECT a.alias FROM dbinfer_private.alias a WHERE a.model = v.model AND a.version = v.version ORDER BY 1) END AS aliases,
       CASE WHEN s.shown THEN v.size END AS size,
       CASE WHEN s.shown THEN v.source_digest END AS digest,
       CASE WHEN s.shown THEN v.created_at END AS created_at,
       CASE WHEN s.shown THEN v.created_by END AS created_by,
       CASE WHEN s.shown THEN v.manifest END AS manifest,
       CASE WHEN s.shown THEN v.trial END AS trial
  FROM dbinfer_private.model_version v
  JOIN dbinfer_private.model m ON m.name = v.model
  JOIN dbinfer._shown_models s ON s.model = v.model;
COMMENT ON VIEW dbinfer.model_versions IS 'one row per version of every model; the manifest of those that the reader may run or administer';
GRANT SELECT ON dbinfer.model_versions TO PUBLIC;
