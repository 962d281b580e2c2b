CREATE OR REPLACE FUNCTION dbinfer._shown_engines() RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- the words of a problem name hosts and folders, and models may be another database's
  RETURN (SELECT coalesce(jsonb_agg((e - 'host' - 'log' - 'models' - 'servers' - 'sandbox') || CASE WHEN coalesce(e->>'problem', '') = '' THEN '{}'
            ELSE '{"problem": "An administrator sees what is wrong here: dbinfer doctor"}' END::jsonb), '[]')
            FROM jsonb_array_elements(dbinfer._full_engines('look')::jsonb) e)::text;
END $$;
COMMENT ON FUNCTION dbinfer._shown_engines() IS 'internal: the engines of this host without host, models and folders';
GRANT EXECUTE ON FUNCTION dbinfer._shown_engines() TO PUBLIC;
