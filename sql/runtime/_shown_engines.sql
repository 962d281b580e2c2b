CREATE OR REPLACE FUNCTION dbinfer._shown_engines() RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- the words of a problem name hosts and folders, and models may be another database's
  RETURN (SELECT coalesce(json_agg((
            SELECT json_object_agg(f.key, CASE WHEN f.key = 'problem' AND coalesce(e->>'problem', '') <> ''
                     THEN '"An administrator sees what is wrong here: dbinfer doctor"' ELSE f.value END)
              FROM jsonb_each(e) f WHERE f.key NOT IN ('host', 'log', 'models', 'servers', 'sandbox'))), '[]')
            FROM jsonb_array_elements(dbinfer._full_engines('look')::jsonb) e)::jsonb::text;
END $$;
COMMENT ON FUNCTION dbinfer._shown_engines() IS 'internal: the engines of this host without host, models and folders';
GRANT EXECUTE ON FUNCTION dbinfer._shown_engines() TO PUBLIC;
