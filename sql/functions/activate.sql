CREATE OR REPLACE FUNCTION dbinfer.activate(model text, version integer)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model, false, version);
  UPDATE dbinfer_private.model m SET active = version WHERE m.name = activate.model;
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.activate(text, integer) IS 'makes a version the one that the plain name means, from the next statement on; also the way back';
REVOKE ALL ON FUNCTION dbinfer.activate(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.activate(text, integer) TO dbinfer_admin;
