-- `workers` among them says how many parallel workers score besides the leader. The runtime does not need usage_since.
CREATE OR REPLACE FUNCTION dbinfer_private.settings() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT json_object_agg(s.name, s.value)::text FROM (
  SELECT name, value FROM dbinfer_private.setting WHERE name <> 'usage_since'
  UNION ALL
  SELECT 'workers', /* greenplum6: '0' */ coalesce(pg_catalog.current_setting('max_parallel_workers_per_gather', true), '0') /* :greenplum6 */
) s
$$;
COMMENT ON FUNCTION dbinfer_private.settings() IS 'all settings of the runtime as JSON';
REVOKE ALL ON FUNCTION dbinfer_private.settings() FROM PUBLIC;
