-- NumPy finds candidates; where pgvector is, it computes their distances, from the rows of these pairs alone. Its index takes half a
-- millisecond a row, in which NumPy compares 100,000 pairs, and misses some: it is asked from 10 billion pairs on.
CREATE OR REPLACE FUNCTION dbinfer.near_duplicates(embeddings regclass, most double precision DEFAULT 0.02, model text DEFAULT NULL,
  id_column name DEFAULT 'id', source_column name DEFAULT 'embedding')
RETURNS TABLE(id bigint, other bigint, distance double precision) LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 1000 COST 1000000 AS $$
DECLARE
  stored pg_catalog.text;
  measured pg_catalog.text := dbinfer._distance('a.e', 'b.e');
  nearest pg_catalog.text;
  rows pg_catalog.float8;
  pairs pg_catalog.text;
BEGIN
  IF most IS NULL OR most OPERATOR(pg_catalog.<) 0 OR most OPERATOR(pg_catalog.=) 'NaN' THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: most is %s, but must be 0 or more', coalesce(most::pg_catalog.text, 'NULL'));
  END IF;
  stored := dbinfer._embeddings(embeddings, model, 'error', id_column, source_column, NULL);
  EXECUTE pg_catalog.format('SELECT pg_catalog.count(*) FROM (%s) s', stored) INTO rows;
  pairs := pg_catalog.to_char(rows OPERATOR(pg_catalog.*) (rows OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog./) 2, 'FM999,999,999,999,999,990');
  IF pg_catalog.strpos(measured, 'dbinfer.cosine_distance') OPERATOR(pg_catalog.=) 1 THEN
    RAISE NOTICE USING MESSAGE = pg_catalog.format('dbinfer: comparing %s pairs', pairs);
    RETURN QUERY SELECT p.id, p.other, p.distance FROM dbinfer._near_pairs(stored, most) p WHERE p.distance OPERATOR(pg_catalog.<=) most;
    RETURN;
  END IF;
  nearest := pg_catalog.format('SELECT a.id, n.id AS other, n.distance FROM (%1$s) a CROSS JOIN LATERAL (SELECT b.id, %2$s AS distance FROM (%1$s) b
      ORDER BY distance LIMIT %3$s) n WHERE n.distance OPERATOR(pg_catalog.<=) $1 AND a.id OPERATOR(pg_catalog.<) n.id', stored,
    dbinfer._distance('b.e', 'a.e'), coalesce((SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) 'hnsw.ef_search'), '40'));
  IF rows OPERATOR(pg_catalog.*) rows OPERATOR(pg_catalog.>) 2e10 AND dbinfer._by_index(nearest, most) THEN
    RAISE NOTICE USING MESSAGE = pg_catalog.format('dbinfer: asking the index for those near each of %s rows, which may miss some of %s pairs', rows, pairs);
    RETURN QUERY SELECT p.id, p.other, p.distance FROM dbinfer._indexed_pairs(nearest, stored, most) p;
    RETURN;
  END IF;
  RAISE NOTICE USING MESSAGE = pg_catalog.format('dbinfer: comparing %s pairs', pairs);
  RETURN QUERY EXECUTE pg_catalog.format('SELECT d.id, d.other, d.distance FROM (SELECT p.id, p.other, %s AS distance
      FROM (SELECT DISTINCT n.id, n.other FROM dbinfer._near_pairs($2, $1) n) p
      JOIN (%s) a ON a.id OPERATOR(pg_catalog.=) p.id JOIN (%2$s) b ON b.id OPERATOR(pg_catalog.=) p.other) d
     WHERE d.distance OPERATOR(pg_catalog.<=) $1', measured, stored) USING most, stored;
END $$;
COMMENT ON FUNCTION dbinfer.near_duplicates(regclass, double precision, text, name, name) IS
  'the pairs of rows whose embeddings are at most this cosine distance apart, e.g. SELECT * FROM dbinfer.near_duplicates(''embeddings'', 0.02, ''features'')';
GRANT EXECUTE ON FUNCTION dbinfer.near_duplicates(regclass, double precision, text, name, name) TO PUBLIC;
