CREATE OR REPLACE FUNCTION dbinfer._cache(prune boolean) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
/* greenplum: EXECUTE ON ALL SEGMENTS */ AS $$
BEGIN
  RETURN NEXT dbinfer_private.cache_here(prune);
END $$;
COMMENT ON FUNCTION dbinfer._cache(boolean) IS 'internal: what is behind dbinfer cache';
REVOKE ALL ON FUNCTION dbinfer._cache(boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._cache(boolean) TO dbinfer_admin;
