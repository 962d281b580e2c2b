-- Beside the other facts of its training, which stay; all else of a version never changes.
CREATE OR REPLACE FUNCTION dbinfer._keep_comparison(model_name text, model_version integer, comparison jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  whole jsonb;
  training jsonb;
BEGIN
  IF (jsonb_typeof(comparison) = 'object') IS NOT TRUE THEN
    RAISE data_exception USING MESSAGE = 'a comparison of versions must be a JSON object',
      HINT = 'It is made by this command: dbinfer train --deploy NAME';
  END IF;
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model_name, false, model_version);
  SELECT v.manifest INTO whole FROM dbinfer_private.model_version v
   WHERE v.model = model_name AND v.version = model_version AND v.tower IS NULL;
  training := dbinfer_private.with_key(whole->'provenance'->'training', 'comparison', comparison);
  whole := dbinfer_private.with_key(whole, 'provenance',
    dbinfer_private.with_key(whole->'provenance', 'training', training));
  UPDATE dbinfer_private.model_version v SET manifest = whole
   WHERE v.model = model_name AND v.version = model_version AND v.tower IS NULL;
END $$;
COMMENT ON FUNCTION dbinfer._keep_comparison(text, integer, jsonb) IS 'internal: keeps how a version did against the one that was active, in its provenance';
REVOKE ALL ON FUNCTION dbinfer._keep_comparison(text, integer, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._keep_comparison(text, integer, jsonb) TO dbinfer_admin;
