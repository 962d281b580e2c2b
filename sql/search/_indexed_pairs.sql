-- The neighbours of each row by pgvector's index, a thousand rows a statement; as many as the index returns for a row, which
-- for HNSW is hnsw.ef_search at most.
CREATE OR REPLACE FUNCTION dbinfer._indexed_pairs(nearest text, stored text, most double precision)
RETURNS TABLE(id bigint, other bigint, distance double precision) LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 1000 COST 1000000 AS $$
DECLARE
  told pg_catalog.timestamptz := pg_catalog.clock_timestamp();
  starts pg_catalog.int8[];
BEGIN
  EXECUTE pg_catalog.format('SELECT pg_catalog.array_agg(DISTINCT n.id) FROM (SELECT s.id, pg_catalog.row_number() OVER (ORDER BY s.id) AS place
      FROM (%s) s WHERE s.id IS NOT NULL) n WHERE n.place OPERATOR(pg_catalog.%%) 1000 OPERATOR(pg_catalog.=) 1', stored) INTO starts;
  FOR p IN 1 .. coalesce(pg_catalog.cardinality(starts), 0) LOOP
    RETURN QUERY EXECUTE nearest OPERATOR(pg_catalog.||) ' AND a.id OPERATOR(pg_catalog.>=) $2 AND ($3 IS NULL OR a.id OPERATOR(pg_catalog.<) $3)'
      USING most, starts[p], starts[p OPERATOR(pg_catalog.+) 1];
    IF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) told OPERATOR(pg_catalog.>) '10 seconds'::pg_catalog.interval THEN
      told := pg_catalog.clock_timestamp();
      RAISE NOTICE USING MESSAGE = pg_catalog.format('dbinfer: %s of %s parts of the table asked for', p, pg_catalog.cardinality(starts));
    END IF;
  END LOOP;
END $$;
COMMENT ON FUNCTION dbinfer._indexed_pairs(text, text, double precision) IS 'internal: the near pairs that an index finds; call dbinfer.near_duplicates';
GRANT EXECUTE ON FUNCTION dbinfer._indexed_pairs(text, text, double precision) TO PUBLIC;
