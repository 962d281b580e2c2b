-- The settings of no consequence for the server. Those that choose what code runs and where files lie (venv, cache_dir,
-- engine_dir, the runtime) and whether images are decoded in backends (isolation) are a superuser's: dbinfer install --venv PATH.
CREATE OR REPLACE FUNCTION dbinfer.set_setting(name text, value text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- the highest values: a bytea ends at 1 GB
  settings jsonb := '{"threads": 1024, "max_models": 64, "cache_limit_mb": 1000000000, "engine_memory_mb": 1000000000,
    "engine_idle_seconds": 1000000000, "max_image_bytes": 1073741823, "image_cache_mb": 1000000000,
    "max_image_pixels": 1073741823,
    "max_image_memory": 8589934592, "max_image_expansion": 1000000, "max_image_scans": 10000, "max_image_segments": 10000000,
    "max_image_frames": 1000000, "max_image_seconds": 3600}';
  highest bigint := (settings ->> name)::bigint;
BEGIN
  IF name = 'usage' THEN
    IF (value IN ('on', 'off')) IS NOT TRUE THEN
      RAISE invalid_parameter_value USING MESSAGE = format('usage cannot be %L', value), HINT = 'Use on or off.';
    END IF;
  ELSIF highest IS NULL THEN
    RAISE insufficient_privilege USING MESSAGE = format('%L is not a setting that can be changed here', name),
      HINT = format('Settings: usage, %s. A superuser changes the others: dbinfer install --help',
        (SELECT string_agg(key, ', ' ORDER BY key) FROM jsonb_object_keys(settings) key));
  -- IS NOT TRUE: NULL is refused as well
  ELSIF (value ~ '^[1-9][0-9]{0,9}$' AND value::bigint <= highest OR name = 'threads' AND value = 'auto') IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%s cannot be %L', name, value),
      HINT = format('Use a number from 1 to %s%s.', highest, CASE name WHEN 'threads' THEN ', or auto' ELSE '' END);
  END IF;
  PERFORM dbinfer_private.set_setting(name, value);
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.set_setting(text, text) IS
  'changes a setting from the next statement on; docs/reference/settings.md lists those that administrators may change, e.g. SELECT dbinfer.set_setting(''max_image_scans'', ''200'')';
REVOKE ALL ON FUNCTION dbinfer.set_setting(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.set_setting(text, text) TO dbinfer_admin;
