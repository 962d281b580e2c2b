CREATE OR REPLACE FUNCTION dbinfer_private.require_store(wanted text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM dbinfer_private.store s WHERE s.name = wanted) THEN
    RAISE undefined_object USING MESSAGE = format('store %L does not exist', wanted),
      HINT = coalesce('There are: ' || (SELECT string_agg(s.name, ', ' ORDER BY s.name) FROM dbinfer_private.store s),
                      'There is none yet. Add one: dbinfer store add --help');
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.require_store(text) IS 'raises unless the store exists';
REVOKE ALL ON FUNCTION dbinfer_private.require_store(text) FROM PUBLIC;
