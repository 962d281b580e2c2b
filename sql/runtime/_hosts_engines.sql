-- With the caller's rights, as dbinfer._segments. One value for each segment; those of a host have the same engines.
CREATE OR REPLACE FUNCTION dbinfer._hosts_engines(action text) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
/* greenplum: EXECUTE ON ALL SEGMENTS */ AS $$
BEGIN
  IF action <> 'look' OR has_function_privilege('dbinfer._full_engines(text)', 'EXECUTE') THEN
    RETURN NEXT dbinfer._full_engines(action);
  ELSE
    RETURN NEXT dbinfer._shown_engines();
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer._hosts_engines(text) IS 'internal: what is behind the view dbinfer.engines';
GRANT EXECUTE ON FUNCTION dbinfer._hosts_engines(text) TO PUBLIC;
