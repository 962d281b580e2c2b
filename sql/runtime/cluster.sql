CREATE OR REPLACE FUNCTION dbinfer_private.cluster() RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s
$$;
COMMENT ON FUNCTION dbinfer_private.cluster() IS 'the system identifier of this cluster';
REVOKE ALL ON FUNCTION dbinfer_private.cluster() FROM PUBLIC;
