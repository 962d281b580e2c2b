-- Candidates, block by block: 1024 rows of up to 512 values, or fewer of more, against four times as many. Blocks are ranges of
-- ids, each read by a statement of its own: nothing grows with the table, no cursor stays open, and a cancel is heard between two.
-- Embeddings of different lengths have no distance; NULL among their values counts as 0, as in dbinfer.cosine_distance.
CREATE OR REPLACE FUNCTION dbinfer._near_pairs(stored text, most double precision)
RETURNS TABLE(id bigint, other bigint, distance double precision) LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 1000 COST 1000000 AS $$
DECLARE
  token pg_catalog.text := dbinfer._resolve('', false);
  source pg_catalog.text := pg_catalog.format('(SELECT s.id, pg_catalog.cardinality(s.e) AS size, pg_catalog.array_replace(s.e, NULL, 0::pg_catalog.float4) AS e
    FROM (SELECT q.id, q.e::pg_catalog.float4[] AS e FROM (%s) q WHERE q.id IS NOT NULL) s WHERE pg_catalog.cardinality(s.e) OPERATOR(pg_catalog.>) 0)', stored);
  -- what array_send writes before the values goes
  block pg_catalog.text := pg_catalog.format('SELECT pg_catalog.array_agg(s.id), pg_catalog.string_agg(pg_catalog.substr(pg_catalog.array_send(s.e),
      13 OPERATOR(pg_catalog.+) (8 OPERATOR(pg_catalog.*) pg_catalog.array_ndims(s.e))), ''''::pg_catalog.bytea)
    FROM %s s WHERE s.size OPERATOR(pg_catalog.=) $1 AND s.id OPERATOR(pg_catalog.>=) $2 AND ($3 IS NULL OR s.id OPERATOR(pg_catalog.<) $3)', source);
  told pg_catalog.timestamptz := pg_catalog.clock_timestamp();
  sizes pg_catalog.int4[];
  pairs pg_catalog.float8;
  compared pg_catalog.float8 := 0;
  size pg_catalog.int4;
  starts pg_catalog.int8[];
  ones pg_catalog.int8[];
  one_values pg_catalog.bytea;
  others pg_catalog.int8[];
  other_values pg_catalog.bytea;
BEGIN
  EXECUTE pg_catalog.format('SELECT pg_catalog.array_agg(c.size),
      coalesce(pg_catalog.sum(c.rows::pg_catalog.float8 OPERATOR(pg_catalog.*) (c.rows OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog./) 2), 0)
    FROM (SELECT s.size, pg_catalog.count(*) AS rows FROM %s s GROUP BY s.size) c', source) INTO sizes, pairs;
  FOREACH size IN ARRAY coalesce(sizes, '{}') LOOP
    EXECUTE pg_catalog.format('SELECT pg_catalog.array_agg(DISTINCT n.id)
        FROM (SELECT s.id, pg_catalog.row_number() OVER (ORDER BY s.id) AS place FROM %s s WHERE s.size OPERATOR(pg_catalog.=) $1) n
       WHERE (n.place OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog.%%) $2 OPERATOR(pg_catalog.=) 0', source)
      INTO starts USING size, greatest(1, least(1024, 524288 OPERATOR(pg_catalog./) size));
    FOR o IN 1 .. coalesce(pg_catalog.cardinality(starts), 0) BY 4 LOOP
      EXECUTE block INTO ones, one_values USING size, starts[o], starts[o OPERATOR(pg_catalog.+) 4];
      FOR p IN o .. pg_catalog.cardinality(starts) LOOP
        EXECUTE block INTO others, other_values USING size, starts[p], starts[p OPERATOR(pg_catalog.+) 1];
        RETURN QUERY SELECT ones[a.one], others[a.other], a.distance FROM dbinfer._alike(one_values, other_values, size, most, token) a
          WHERE ones[a.one] OPERATOR(pg_catalog.<) others[a.other];
        -- each pair within the first four blocks is looked at twice
        compared := compared OPERATOR(pg_catalog.+) (pg_catalog.cardinality(ones)::pg_catalog.float8 OPERATOR(pg_catalog.*) pg_catalog.cardinality(others)
          OPERATOR(pg_catalog./) CASE WHEN p OPERATOR(pg_catalog.-) o OPERATOR(pg_catalog.<) 4 THEN 2 ELSE 1 END);
        IF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) told OPERATOR(pg_catalog.>) '10 seconds'::pg_catalog.interval THEN
          told := pg_catalog.clock_timestamp();
          RAISE NOTICE USING MESSAGE = pg_catalog.format('dbinfer: %s of %s pairs compared', pg_catalog.to_char(least(compared, pairs),
            'FM999,999,999,999,999,990'), pg_catalog.to_char(pairs, 'FM999,999,999,999,999,990'));
        END IF;
      END LOOP;
    END LOOP;
  END LOOP;
END $$;
COMMENT ON FUNCTION dbinfer._near_pairs(text, double precision) IS 'internal: the pairs of embeddings that may be this near each other, in the order of their blocks; call dbinfer.near_duplicates';
GRANT EXECUTE ON FUNCTION dbinfer._near_pairs(text, double precision) TO PUBLIC;
