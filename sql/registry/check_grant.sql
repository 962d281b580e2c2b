CREATE OR REPLACE FUNCTION dbinfer_private.check_grant(caller oid, wanted text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM dbinfer_private.model_grant g WHERE g.model = wanted AND g.role = 'public')
     OR EXISTS (SELECT 1 FROM dbinfer_private.model_grant g JOIN pg_catalog.pg_roles r ON r.rolname = g.role
                WHERE g.model = wanted AND pg_catalog.pg_has_role(caller, r.oid, 'USAGE'))
     OR pg_catalog.pg_has_role(caller, 'dbinfer_owner', 'USAGE') THEN
    RETURN;
  END IF;
  RAISE insufficient_privilege USING
    MESSAGE = format('permission denied for model "%s"', wanted),
    DETAIL = format('Role "%s" was not granted the use of this model.', pg_catalog.pg_get_userbyid(caller)),
    HINT = format('Ask an administrator for: SELECT dbinfer.grant_model(%L, %L)', wanted, pg_catalog.pg_get_userbyid(caller));
END $$;
COMMENT ON FUNCTION dbinfer_private.check_grant(oid, text) IS 'raises 42501 unless the model is granted to the user, to a role it has, or to everybody';
REVOKE ALL ON FUNCTION dbinfer_private.check_grant(oid, text) FROM PUBLIC;
ALTER FUNCTION dbinfer_private.check_grant(oid, text) OWNER TO dbinfer_owner;
