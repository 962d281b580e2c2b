CREATE OR REPLACE FUNCTION dbinfer_private.check_grant(caller oid, wanted text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- unknown on a segment that is finishing: callers also check for that before anything is scored
  IF dbinfer_private.granted(caller, wanted) /* greenplum: OR dbinfer_private.finishing() */ THEN
    RETURN;
  END IF;
  PERFORM dbinfer_private.require_registry();
  RAISE insufficient_privilege USING
    MESSAGE = format('permission denied for model "%s"', wanted),
    DETAIL = format('Role "%s" may not run this model.', pg_catalog.pg_get_userbyid(caller)),
    HINT = format('Ask an administrator to run: SELECT dbinfer.grant_model(%L, %L)', wanted, pg_catalog.pg_get_userbyid(caller));
END $$;
COMMENT ON FUNCTION dbinfer_private.check_grant(oid, text) IS 'raises 42501 unless the model is granted to the user, to a role it has, or to everybody';
REVOKE ALL ON FUNCTION dbinfer_private.check_grant(oid, text) FROM PUBLIC;
