-- Parts that other versions share survive.
CREATE OR REPLACE FUNCTION dbinfer.drop_model(model text, version integer DEFAULT NULL, force boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  current_version integer;
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model, true, version);
  SELECT m.active INTO current_version FROM dbinfer_private.model m WHERE m.name = drop_model.model;
  IF current_version IS NOT NULL AND coalesce(version, current_version) = current_version AND NOT coalesce(force, false) THEN
    RAISE object_in_use USING
      MESSAGE = format('version %s of model "%s" is active', current_version, model),
      HINT = 'Activate another version first, or drop this one with force => true.';
  END IF;
  PERFORM dbinfer_private.remove_versions(model, version);
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.drop_model(text, integer, boolean) IS
  'removes a version, or without one the whole model; refuses the active version unless force is true, e.g. SELECT dbinfer.drop_model(''digits'', 2)';
REVOKE ALL ON FUNCTION dbinfer.drop_model(text, integer, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.drop_model(text, integer, boolean) TO dbinfer_admin;
