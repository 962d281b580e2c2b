CREATE OR REPLACE FUNCTION dbinfer.grant_model(model text, role text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model, true, NULL);
  IF role IS DISTINCT FROM 'public' AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = role) THEN
    RAISE undefined_object USING MESSAGE = format('role %L does not exist', role),
      HINT = 'Create the role, or grant to public, which is everybody.';
  END IF;
  -- an older grant may name the oid of a role that was dropped
  DELETE FROM dbinfer_private.model_grant g WHERE g.model = grant_model.model AND g.role = grant_model.role;
  INSERT INTO dbinfer_private.model_grant VALUES (grant_model.model, grant_model.role,
    (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = grant_model.role), dbinfer_private.cluster());
  -- no forget() as in revoke_model: a refusal is not remembered
END $$;
COMMENT ON FUNCTION dbinfer.grant_model(text, text) IS
  'lets a role use a model (public is everybody); nobody can read its weights, e.g. SELECT dbinfer.grant_model(''digits'', ''analysts'')';
REVOKE ALL ON FUNCTION dbinfer.grant_model(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.grant_model(text, text) TO dbinfer_admin;
