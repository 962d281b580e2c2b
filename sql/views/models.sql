-- Roles that may neither use nor administer a model see that it exists, and nothing else of it.
CREATE OR REPLACE VIEW dbinfer.models AS
SELECT m.name,
       m.active AS version,
       v.manifest->>'task' AS task,
       coalesce(m.name = (SELECT s.value FROM dbinfer_private.setting s WHERE s.name = 'default_model'), false) AS is_default,
       (SELECT count(*) FROM dbinfer_private.model_version w WHERE w.model = m.name AND w.tower IS NULL) AS versions,
       CASE WHEN s.shown THEN ARRAY(SELECT a.alias || '=' || a.version::text FROM dbinfer_private.alias a WHERE a.model = m.name ORDER BY 1) END AS aliases,
       CASE WHEN s.shown THEN ARRAY(SELECT g.role FROM dbinfer_private.model_grant g WHERE g.model = m.name ORDER BY 1) END AS granted_to,
       CASE WHEN s.shown THEN v.manifest->>'precision' END AS precision,
       CASE WHEN s.shown THEN (v.manifest->>'height') || 'x' || (v.manifest->>'width') || 'x' || (v.manifest->>'channels') END AS input,
       -- of any other type only where an older version has let it in: one model must not break the view for all
       CASE WHEN s.shown AND jsonb_typeof(v.manifest->'labels') = 'array' THEN jsonb_array_length(v.manifest->'labels') END AS labels,
       CASE WHEN s.shown THEN v.size END AS size,
       CASE WHEN s.shown THEN v.created_at END AS created_at,
       CASE WHEN s.shown THEN v.created_by END AS created_by,
       CASE WHEN s.shown THEN v.manifest->'metrics' END AS metrics,
       CASE WHEN s.shown THEN v.manifest->'provenance' END AS provenance,
       CASE WHEN s.shown THEN m.isolation END AS isolation
  FROM dbinfer_private.model m
  JOIN dbinfer._shown_models s ON s.model = m.name
  LEFT JOIN dbinfer_private.model_version v ON v.model = m.name AND v.version = m.active AND v.tower IS NULL;
COMMENT ON VIEW dbinfer.models IS
  'one row per model, with its active version, e.g. SELECT name, version, task, input FROM dbinfer.models';
COMMENT ON COLUMN dbinfer.models.name IS 'name of the model';
COMMENT ON COLUMN dbinfer.models.version IS 'active version';
COMMENT ON COLUMN dbinfer.models.task IS 'classification, segmentation, detection, embedding or tensor';
COMMENT ON COLUMN dbinfer.models.is_default IS 'whether calls that name no model use it';
COMMENT ON COLUMN dbinfer.models.versions IS 'how many versions there are';
COMMENT ON COLUMN dbinfer.models.aliases IS 'aliases, as alias=version';
COMMENT ON COLUMN dbinfer.models.granted_to IS 'roles that may use it; public is everybody';
COMMENT ON COLUMN dbinfer.models.precision IS 'precision in which it computes: f32, bf16 or f16';
COMMENT ON COLUMN dbinfer.models.input IS 'size of the network''s input: height x width x channels, as --input-size takes it';
COMMENT ON COLUMN dbinfer.models.labels IS 'how many classes have names';
COMMENT ON COLUMN dbinfer.models.size IS 'bytes of the active version''s files';
COMMENT ON COLUMN dbinfer.models.created_at IS 'when the active version was deployed';
COMMENT ON COLUMN dbinfer.models.created_by IS 'who deployed it';
COMMENT ON COLUMN dbinfer.models.metrics IS 'metrics of its training';
COMMENT ON COLUMN dbinfer.models.provenance IS 'where it comes from: framework, data, options of its training';
COMMENT ON COLUMN dbinfer.models.isolation IS 'its own setting of isolation; NULL means the database''s';
GRANT SELECT ON dbinfer.models TO PUBLIC;
