-- Every model as one JSON object with its versions, for `dbinfer models`.
SELECT pg_catalog.json_build_object(
         'name', m.name, 'version', m.version, 'task', m.task, 'default', m.is_default, 'aliases', m.aliases,
         'granted_to', m.granted_to, 'precision', m.precision, 'input', m.input, 'labels', m.labels, 'size', m.size,
         'created_at', m.created_at, 'created_by', m.created_by, 'metrics', m.metrics, 'provenance', m.provenance, 'isolation', m.isolation,
         'history', (SELECT pg_catalog.json_agg(pg_catalog.json_build_object('version', v.version, 'active', v.active, 'size', v.size,
                       'aliases', v.aliases, 'created_at', v.created_at, 'created_by', v.created_by, 'digest', v.digest,
                       'source_size', v.source_size)
                       ORDER BY v.version) FROM dbinfer.model_versions v WHERE v.name OPERATOR(pg_catalog.=) m.name))
  FROM dbinfer.models m
 ORDER BY m.name
