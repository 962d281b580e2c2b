-- The database's 'always' is a superuser's promise that no image is decoded in a backend: it holds for every model.
CREATE OR REPLACE FUNCTION dbinfer.set_isolation(model text, isolation text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_model(model, true, NULL);
  IF isolation IS NOT NULL AND isolation NOT IN ('auto', 'always', 'never') THEN
    RAISE invalid_parameter_value USING MESSAGE = format('isolation cannot be %L', isolation),
      HINT = 'Use auto, always or never; NULL means the database''s setting.';
  ELSIF isolation IN ('auto', 'never') AND EXISTS (
      SELECT 1 FROM dbinfer_private.setting s WHERE s.name = 'isolation' AND s.value = 'always') THEN
    RAISE insufficient_privilege USING MESSAGE = format('isolation of a model cannot be %L where the database says always', isolation),
      HINT = 'A superuser changes it for the database: dbinfer install --isolation auto';
  END IF;
  UPDATE dbinfer_private.model m SET isolation = set_isolation.isolation WHERE m.name = set_isolation.model;
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.set_isolation(text, text) IS
  'chooses whether the host''s engine runs a model: auto, always or never; NULL means the database''s setting, e.g. SELECT dbinfer.set_isolation(''digits'', ''always'')';
REVOKE ALL ON FUNCTION dbinfer.set_isolation(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.set_isolation(text, text) TO dbinfer_admin;
