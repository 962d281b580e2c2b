-- The databases of the cluster among them: a model that only dropped databases used can go.
CREATE OR REPLACE FUNCTION dbinfer_private.settings_and_databases() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT json_object_agg(s.key, s.value)::text FROM (
  SELECT key, value FROM json_each_text(dbinfer_private.settings()::json)
  UNION ALL
  SELECT 'databases', string_agg(d.oid::text, ',') FROM pg_catalog.pg_database d
) s
$$;
COMMENT ON FUNCTION dbinfer_private.settings_and_databases() IS 'the settings of the runtime, and the oids of all databases';
REVOKE ALL ON FUNCTION dbinfer_private.settings_and_databases() FROM PUBLIC;
