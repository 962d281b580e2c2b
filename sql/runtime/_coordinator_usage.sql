-- On Greenplum some plans score rows on the coordinator, which ALL SEGMENTS does not include. STABLE, so that the planner calls it before
-- any segment works: later it could read no table there.
CREATE OR REPLACE FUNCTION dbinfer._coordinator_usage() RETURNS text
LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  /* tables-only: RETURN NULL; */
  /* greenplum: RETURN dbinfer._usage_of(dbinfer._ask('dbinfer usage')); */
  RETURN NULL;
END $$;
COMMENT ON FUNCTION dbinfer._coordinator_usage() IS 'internal: as dbinfer._usage, on Greenplum''s coordinator; nothing on PostgreSQL';
GRANT EXECUTE ON FUNCTION dbinfer._coordinator_usage() TO PUBLIC;
