CREATE OR REPLACE FUNCTION dbinfer._status() RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found jsonb := dbinfer._full_status();
BEGIN
  -- the words of a problem name hosts and folders
  RETURN (SELECT json_object_agg(f.key, CASE WHEN f.key = 'problem' AND f.value <> 'null'
                   THEN '"An administrator sees what is wrong here: dbinfer doctor"' ELSE f.value END)
            FROM jsonb_each(found) f WHERE f.key NOT IN ('host', 'hint', 'venv', 'cache_dir', 'cache_bytes', 'cache_free', 'devices'))::jsonb;
END $$;
COMMENT ON FUNCTION dbinfer._status() IS 'internal: facts of this process without host and folders';
GRANT EXECUTE ON FUNCTION dbinfer._status() TO PUBLIC;
