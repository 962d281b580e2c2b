CREATE OR REPLACE FUNCTION dbinfer.revoke_model(model text, role text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model, true, NULL);
  DELETE FROM dbinfer_private.model_grant g WHERE g.model = revoke_model.model AND g.role = revoke_model.role;
  IF NOT FOUND THEN
    RAISE undefined_object USING MESSAGE = format('model "%s" was not granted to %L', model, role),
      HINT = 'To list grants: SELECT name, granted_to FROM dbinfer.models';
  END IF;
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.revoke_model(text, text) IS
  'takes the right to use a model from a role, from the next statement on, e.g. SELECT dbinfer.revoke_model(''digits'', ''public'')';
REVOKE ALL ON FUNCTION dbinfer.revoke_model(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.revoke_model(text, text) TO dbinfer_admin;
