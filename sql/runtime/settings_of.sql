-- `hosts` among them says whether errors name hosts and folders to this user. USAGE, as for EXECUTE on what they may call.
CREATE OR REPLACE FUNCTION dbinfer_private.settings_of(caller oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- The comment in the query is for people: on Greenplum it is the CONTEXT of "multiple segworker groups", an error of the
  -- server that our functions cannot catch there.
  RETURN (SELECT /* The model is hidden in a function that is not inlined, above rows that were gathered: put them into a table
    first, CREATE TEMP TABLE few AS SELECT ... LIMIT 3, and score that table (docs/how-to/greenplum.md, Plans). */ json_object_agg(s.key, s.value)::text FROM (
    SELECT key, value FROM json_each_text(dbinfer_private.settings()::json)
    UNION ALL
    SELECT 'hosts', (has_function_privilege(caller, 'dbinfer._full_status()', 'EXECUTE'))::text
  ) s);
END $$;
COMMENT ON FUNCTION dbinfer_private.settings_of(oid) IS 'the settings of the runtime, and whether a user sees hosts and folders';
REVOKE ALL ON FUNCTION dbinfer_private.settings_of(oid) FROM PUBLIC;
