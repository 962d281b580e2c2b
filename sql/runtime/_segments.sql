-- Names of hosts and folders are for administrators. With the caller's rights, as they are now: session_user would show
-- them to any SECURITY DEFINER function that an administrator happens to call.
CREATE OR REPLACE FUNCTION dbinfer._segments() RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
/* greenplum: EXECUTE ON ALL SEGMENTS */ AS $$
BEGIN
  IF has_function_privilege('dbinfer._full_status()', 'EXECUTE') THEN
    RETURN NEXT dbinfer._full_status();
  ELSE
    RETURN NEXT dbinfer._status();
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer._segments() IS 'internal: what is behind the view dbinfer.segments';
GRANT EXECUTE ON FUNCTION dbinfer._segments() TO PUBLIC;
