CREATE OR REPLACE FUNCTION dbinfer_private.require_model(wanted text, any_version boolean, wanted_version integer) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF wanted IS NULL OR (wanted_version IS NULL AND NOT any_version) THEN
    RAISE null_value_not_allowed USING MESSAGE = format('the %s is NULL', CASE WHEN wanted IS NULL THEN 'model' ELSE 'version' END),
      HINT = 'To list what is deployed: SELECT name, version FROM dbinfer.model_versions';
  END IF;
  IF NOT EXISTS (SELECT 1 FROM dbinfer_private.model m WHERE m.name = wanted) THEN
    PERFORM dbinfer_private.raise_unknown(wanted, NULL);
  END IF;
  IF wanted_version IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM dbinfer_private.model_version v WHERE v.model = wanted AND v.version = wanted_version) THEN
    PERFORM dbinfer_private.raise_unknown(wanted, wanted_version::text);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.require_model(text, boolean, integer) IS 'raises unless a model of that plain name, and that version, exists';
REVOKE ALL ON FUNCTION dbinfer_private.require_model(text, boolean, integer) FROM PUBLIC;
