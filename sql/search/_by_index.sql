-- VOLATILE, because others may not EXPLAIN.
CREATE OR REPLACE FUNCTION dbinfer._by_index(query text, most double precision) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
  plan pg_catalog.json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' OPERATOR(pg_catalog.||) query INTO plan USING most;
  -- of an index alone; what is sorted has a Sort Key
  RETURN pg_catalog.strpos(plan::pg_catalog.text, '"Order By"') OPERATOR(pg_catalog.>) 0;
END $$;
COMMENT ON FUNCTION dbinfer._by_index(text, double precision) IS 'internal: whether the planner has an index give the rows of a query in their order';
GRANT EXECUTE ON FUNCTION dbinfer._by_index(text, double precision) TO PUBLIC;
