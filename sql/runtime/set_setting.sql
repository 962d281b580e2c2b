CREATE OR REPLACE FUNCTION dbinfer_private.set_setting(setting_name text, setting_value text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE dbinfer_private.setting s SET value = setting_value WHERE s.name = setting_name;
  IF NOT FOUND THEN
    INSERT INTO dbinfer_private.setting VALUES (setting_name, setting_value);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.set_setting(text, text) IS 'writes one setting of the runtime';
REVOKE ALL ON FUNCTION dbinfer_private.set_setting(text, text) FROM PUBLIC;
