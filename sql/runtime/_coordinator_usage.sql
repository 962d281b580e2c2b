-- On Greenplum some plans score rows on the coordinator, which is none of ALL SEGMENTS.
CREATE OR REPLACE FUNCTION dbinfer._coordinator_usage() RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp
/* greenplum: EXECUTE ON MASTER */ AS $$
BEGIN
  /* greenplum: RETURN NEXT dbinfer._usage_of(dbinfer._ask('dbinfer usage')); */
  RETURN;
END $$;
COMMENT ON FUNCTION dbinfer._coordinator_usage() IS 'internal: as dbinfer._usage, on Greenplum''s coordinator; nothing on PostgreSQL';
GRANT EXECUTE ON FUNCTION dbinfer._coordinator_usage() TO PUBLIC;
