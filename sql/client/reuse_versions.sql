-- The versions that answer as this one does: the same network and weights, and a manifest that differs at most in what it tells of the training.
SELECT o.name, o.version
  FROM dbinfer.model_versions v
  JOIN dbinfer.model_versions o ON o.files OPERATOR(pg_catalog.=) v.files
   AND (o.manifest OPERATOR(pg_catalog.-) ARRAY['metrics', 'provenance']) OPERATOR(pg_catalog.=) (v.manifest OPERATOR(pg_catalog.-) ARRAY['metrics', 'provenance'])
 WHERE v.name OPERATOR(pg_catalog.=) %(model)s AND v.version OPERATOR(pg_catalog.=) %(version)s
 ORDER BY 1, 2
