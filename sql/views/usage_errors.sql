CREATE OR REPLACE VIEW dbinfer.usage_errors AS
SELECT v.model, v.version, coalesce(r.rolname::text, 'role ' || c.role_oid::text) AS role, t.key AS kind, sum(t.value::bigint)::bigint AS rows
  FROM dbinfer._counted_usage c JOIN dbinfer_private.model_version v ON v.id = c.version_id
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = c.role_oid,
       LATERAL jsonb_each_text(c.errors) t
 GROUP BY v.model, v.version, c.role_oid, r.rolname, t.key;
COMMENT ON VIEW dbinfer.usage_errors IS
  'why rows had no result, of those of dbinfer.usage that were scored one by one: your own; administrators and members of pg_monitor see all, e.g. SELECT model, kind, rows FROM dbinfer.usage_errors WHERE rows > 0';
COMMENT ON COLUMN dbinfer.usage_errors.model IS 'name of the model';
COMMENT ON COLUMN dbinfer.usage_errors.version IS 'version of the model';
COMMENT ON COLUMN dbinfer.usage_errors.role IS 'whose rights counted';
COMMENT ON COLUMN dbinfer.usage_errors.kind IS 'image: damaged; limit: beyond a limit; model, store, engine: these could not be used; cancel: the statement was ended; other';
COMMENT ON COLUMN dbinfer.usage_errors.rows IS 'how many rows had it';
GRANT SELECT ON dbinfer.usage_errors TO PUBLIC;
