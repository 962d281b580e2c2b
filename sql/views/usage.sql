CREATE OR REPLACE VIEW dbinfer.usage AS
WITH counted AS (
  -- what dbinfer._keep_usage has kept of a counter is what it said then: the higher of the two counts
  SELECT x.source, x.version_id, coalesce(max(x.named), max(x.kept)) AS role,
         max(x.rows) AS rows, max(x.seconds) AS seconds, max(x.last_used) AS last_used
    FROM (
      SELECT c.source, c.role_oid, c.version_id, coalesce(r.rolname::text, 'role ' || c.role_oid::text) AS named, NULL::text AS kept,
             c.rows, c.seconds, c.last_used
        FROM dbinfer._counted_usage c LEFT JOIN pg_catalog.pg_roles r ON r.oid = c.role_oid
      UNION ALL
      SELECT k.source, k.role_oid, k.version_id, NULL, k.role, k.rows, k.seconds, k.last_used
        FROM dbinfer_private.usage k
       WHERE k.role = current_user
          OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname IN ('dbinfer_admin', 'pg_monitor') AND pg_has_role(r.oid, 'USAGE'))
    ) x GROUP BY x.source, x.role_oid, x.version_id
)
SELECT v.model, v.version, c.role, sum(c.rows)::bigint AS rows, sum(c.seconds) AS seconds, max(c.last_used) AS last_used
  FROM counted c JOIN dbinfer_private.model_version v ON v.id = c.version_id
 GROUP BY v.model, v.version, c.role;
COMMENT ON VIEW dbinfer.usage IS
  'who scored how many rows with which version: your own rows; administrators and members of pg_monitor see all. Counted while the setting usage is on, e.g. SELECT model, role, rows, last_used FROM dbinfer.usage';
COMMENT ON COLUMN dbinfer.usage.model IS 'name of the model';
COMMENT ON COLUMN dbinfer.usage.version IS 'version of the model';
COMMENT ON COLUMN dbinfer.usage.role IS 'whose rights counted';
COMMENT ON COLUMN dbinfer.usage.rows IS 'images scored, damaged ones included';
COMMENT ON COLUMN dbinfer.usage.seconds IS 'time of all processes together, loading the model included';
COMMENT ON COLUMN dbinfer.usage.last_used IS 'when a row was last scored';
GRANT SELECT ON dbinfer.usage TO PUBLIC;
