-- Who used what, each as one JSON object; administrators also get the versions that were never used.
SELECT pg_catalog.row_to_json(x) FROM (
  SELECT u.model, u.version, u.role, u.rows, u.seconds, u.last_used FROM dbinfer.usage u
  UNION ALL
  SELECT v.name, v.version, NULL, 0, 0, NULL FROM dbinfer.model_versions v
   WHERE pg_catalog.has_function_privilege('dbinfer._keep_usage()', 'EXECUTE')
     AND NOT EXISTS (SELECT 1 FROM dbinfer.usage u
                      WHERE u.model OPERATOR(pg_catalog.=) v.name AND u.version OPERATOR(pg_catalog.=) v.version)
) x
 WHERE %(model)s IS NULL OR x.model OPERATOR(pg_catalog.=) %(model)s
 ORDER BY x.model, x.version, x.rows DESC, x.role
