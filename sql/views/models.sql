CREATE OR REPLACE VIEW dbinfer.models AS
SELECT m.name,
       m.active AS version,
       v.manifest->>'task' AS task,
       coalesce(m.name = (SELECT s.value FROM dbinfer_private.setting s WHERE s.name = 'default_model'), false) AS is_default,
       (SELECT count(*) FROM dbinfer_private.model_version w WHERE w.model = m.name) AS versions,
       ARRAY(SELECT a.alias || '=' || a.version FROM dbinfer_private.alias a WHERE a.model = m.name ORDER BY 1) AS aliases,
       ARRAY(SELECT g.role FROM dbinfer_private.model_grant g WHERE g.model = m.name ORDER BY 1) AS granted_to,
       v.manifest->>'precision' AS precision,
       (v.manifest->>'width') || 'x' || (v.manifest->>'height') || 'x' || (v.manifest->>'channels') AS input,
       jsonb_array_length(v.manifest->'labels') AS labels,
       v.size,
       v.created_at,
       v.created_by,
       v.manifest->'metrics' AS metrics,
       v.manifest->'provenance' AS provenance
  FROM dbinfer_private.model m
  LEFT JOIN dbinfer_private.model_version v ON v.model = m.name AND v.version = m.active;
COMMENT ON VIEW dbinfer.models IS 'one row per model, with its active version';
GRANT SELECT ON dbinfer.models TO PUBLIC;
