-- An engine works for all databases of its host and user, so what it holds is shown to administrators alone.
CREATE OR REPLACE FUNCTION dbinfer._full_engines(action text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (action IN ('look', 'start', 'stop', 'replace')) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('action cannot be %L', action),
      HINT = 'Use look, start, stop or replace.';
  END IF;
  PERFORM dbinfer_private.load_runtime();
  RETURN dbinfer_private.engines(dbinfer_private.settings(), action);
END $$;
COMMENT ON FUNCTION dbinfer._full_engines(text) IS 'internal: the engines of this host, hosts and models included; starts one or stops them';
REVOKE ALL ON FUNCTION dbinfer._full_engines(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._full_engines(text) TO dbinfer_admin;
