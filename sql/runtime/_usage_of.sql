CREATE OR REPLACE FUNCTION dbinfer._usage_of(note text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.caller('dbinfer usage', note);
BEGIN
  IF caller IS NULL THEN
    RAISE insufficient_privilege USING MESSAGE = 'dbinfer._usage_of is internal', HINT = 'Read the view dbinfer.usage.';
  END IF;
  PERFORM dbinfer_private.load_runtime();
  RETURN dbinfer_private.usage_here(CASE WHEN NOT has_function_privilege(caller, 'dbinfer._keep_usage()', 'EXECUTE')
    AND NOT EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolname = 'pg_monitor' AND pg_has_role(caller, r.oid, 'USAGE')) THEN caller END);
END $$;
COMMENT ON FUNCTION dbinfer._usage_of(text) IS 'internal: what was counted in this data directory: of the asker; for administrators and members of pg_monitor, of all';
GRANT EXECUTE ON FUNCTION dbinfer._usage_of(text) TO PUBLIC;
