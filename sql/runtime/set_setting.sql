CREATE OR REPLACE FUNCTION dbinfer_private.set_setting(setting_name text, setting_value text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- it distinguishes "never used" from "not known"; in a form that every DateStyle reads
  IF setting_name = 'usage' AND setting_value = 'on'
     AND NOT EXISTS (SELECT 1 FROM dbinfer_private.setting s WHERE s.name = 'usage' AND s.value = 'on') THEN
    PERFORM dbinfer_private.set_setting('usage_since', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
  END IF;
  UPDATE dbinfer_private.setting s SET value = setting_value WHERE s.name = setting_name;
  IF NOT FOUND THEN
    INSERT INTO dbinfer_private.setting VALUES (setting_name, setting_value);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.set_setting(text, text) IS 'writes one setting of the runtime';
REVOKE ALL ON FUNCTION dbinfer_private.set_setting(text, text) FROM PUBLIC;
