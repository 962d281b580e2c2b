CREATE OR REPLACE FUNCTION dbinfer._status() RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found jsonb := dbinfer._full_status();
BEGIN
  -- its words name hosts and folders
  IF found->>'problem' IS NOT NULL THEN
    found := found || '{"problem": "An administrator sees what is wrong here: dbinfer doctor"}';
  END IF;
  RETURN found - 'host' - 'venv' - 'cache_dir' - 'cache_bytes' - 'cache_free';
END $$;
COMMENT ON FUNCTION dbinfer._status() IS 'internal: facts of this process without host and folders';
GRANT EXECUTE ON FUNCTION dbinfer._status() TO PUBLIC;
