CREATE OR REPLACE FUNCTION dbinfer.set_default(model text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model, true, NULL);
  PERFORM dbinfer_private.set_setting('default_model', model);
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.set_default(text) IS
  'chooses the model that functions use when a call names none, e.g. SELECT dbinfer.set_default(''digits'')';
REVOKE ALL ON FUNCTION dbinfer.set_default(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.set_default(text) TO dbinfer_admin;
