CREATE OR REPLACE FUNCTION dbinfer._segments() RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
/* greenplum: EXECUTE ON ALL SEGMENTS */ AS $$
BEGIN
  PERFORM dbinfer_private.load_runtime();
  RETURN NEXT dbinfer_private.status(dbinfer_private.settings());
END $$;
COMMENT ON FUNCTION dbinfer._segments() IS 'internal: facts behind the view dbinfer.segments';
GRANT EXECUTE ON FUNCTION dbinfer._segments() TO PUBLIC;
