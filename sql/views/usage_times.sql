CREATE OR REPLACE VIEW dbinfer.usage_times AS
SELECT v.model, v.version, coalesce(r.rolname::text, 'role ' || c.role_oid::text) AS role, t.key::double precision AS seconds,
       sum(t.value::bigint)::bigint AS rows
  FROM dbinfer._counted_usage c JOIN dbinfer_private.model_version v ON v.id = c.version_id
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = c.role_oid,
       LATERAL jsonb_each_text(c.times) t
 GROUP BY v.model, v.version, c.role_oid, r.rolname, t.key;
COMMENT ON VIEW dbinfer.usage_times IS
  'how long rows took, those of dbinfer.usage that were counted since 0.9: your own; administrators and members of pg_monitor see all, e.g. SELECT seconds, sum(rows) FROM dbinfer.usage_times GROUP BY seconds ORDER BY seconds';
COMMENT ON COLUMN dbinfer.usage_times.model IS 'name of the model';
COMMENT ON COLUMN dbinfer.usage_times.version IS 'version of the model';
COMMENT ON COLUMN dbinfer.usage_times.role IS 'whose rights counted';
COMMENT ON COLUMN dbinfer.usage_times.seconds IS 'the most that each of these rows took; of a batch, its mean; the next smaller one is the least';
COMMENT ON COLUMN dbinfer.usage_times.rows IS 'how many rows took so long';
GRANT SELECT ON dbinfer.usage_times TO PUBLIC;
