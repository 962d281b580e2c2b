CREATE OR REPLACE FUNCTION dbinfer.activate(model text, version integer)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- first, so that what is checked next still holds when it is written
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model, false, version);
  UPDATE dbinfer_private.model m SET active = version WHERE m.name = activate.model;
  -- a later statement of the same message has the same clock, and would find what this one resolved
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.activate(text, integer) IS
  'chooses the version that a model''s plain name means, from the next statement on; go back in the same way, e.g. SELECT dbinfer.activate(''digits'', 2)';
REVOKE ALL ON FUNCTION dbinfer.activate(text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.activate(text, integer) TO dbinfer_admin;
