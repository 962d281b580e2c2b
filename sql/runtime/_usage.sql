-- With the caller's rights, so that _ask notes the reader.
CREATE OR REPLACE FUNCTION dbinfer._usage() RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
/* greenplum: EXECUTE ON ALL SEGMENTS */ AS $$
BEGIN
  /* tables-only: RETURN; */
  RETURN NEXT dbinfer._usage_of(dbinfer._ask('dbinfer usage'));
END $$;
COMMENT ON FUNCTION dbinfer._usage() IS 'internal: what is behind the view dbinfer.usage; one value for each segment';
GRANT EXECUTE ON FUNCTION dbinfer._usage() TO PUBLIC;
