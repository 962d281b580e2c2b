-- The settings of no consequence for the server. Those that choose what code runs and where files lie (venv, cache_dir, the
-- runtime) are a superuser's: dbinfer install --venv PATH.
CREATE OR REPLACE FUNCTION dbinfer.set_setting(name text, value text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  highest bigint := CASE name WHEN 'threads' THEN 1024 WHEN 'max_models' THEN 64
                              WHEN 'max_image_bytes' THEN 1073741823 WHEN 'max_image_pixels' THEN 1073741823 END;
BEGIN
  IF highest IS NULL THEN
    RAISE insufficient_privilege USING MESSAGE = format('%L is not a setting that can be changed here', name),
      HINT = 'Settings: threads, max_models, max_image_bytes, max_image_pixels. A superuser changes the others: dbinfer install --help';
  ELSIF (value ~ '^[1-9][0-9]{0,9}$' AND value::bigint <= highest OR name = 'threads' AND value = 'auto') IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%s cannot be %L', name, value),
      HINT = format('Use a number from 1 to %s%s.', highest, CASE name WHEN 'threads' THEN ', or auto' ELSE '' END);
  END IF;
  PERFORM dbinfer_private.set_setting(name, value);
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.set_setting(text, text) IS 'sets threads, max_models, max_image_bytes or max_image_pixels, from the next statement on';
REVOKE ALL ON FUNCTION dbinfer.set_setting(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.set_setting(text, text) TO dbinfer_admin;
