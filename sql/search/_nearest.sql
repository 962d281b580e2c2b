-- The statement for the k nearest. A condition takes rows away that an index of neighbours has found: unless pgvector goes on
-- searching (`iterated`), no index gives the order, which a sum keeps it from; and should it end before it has k, all rows are read.
-- What has no distance (a bad image, an embedding of zeros) comes last, and is left out.
CREATE OR REPLACE FUNCTION dbinfer._nearest(distance text, stored text, k integer, numbered boolean, unconditional boolean, iterated boolean)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE WHEN unconditional THEN pg_catalog.format('%s WHERE %s', q.first, q.finite)
            WHEN NOT iterated THEN pg_catalog.format('%s WHERE %s', q.every, q.finite)
            ELSE pg_catalog.format('WITH first AS (%1$s WHERE %3$s),
       every AS (%2$s WHERE %3$s AND (SELECT pg_catalog.count(*) FROM first) OPERATOR(pg_catalog.<) %4$s)
     SELECT f.* FROM first f WHERE (SELECT pg_catalog.count(*) FROM first) OPERATOR(pg_catalog.>=) %4$s
     UNION ALL SELECT e.* FROM every e ORDER BY 2', q.first, q.every, q.finite, k) END
  FROM (SELECT p.shown OPERATOR(pg_catalog.||) pg_catalog.format(p.sorted, distance, stored, k) AS first,
               p.shown OPERATOR(pg_catalog.||) pg_catalog.format(p.sorted, distance OPERATOR(pg_catalog.||) ' OPERATOR(pg_catalog.+) 0::pg_catalog.float8',
                                                                stored, k) AS every,
               'n.distance OPERATOR(pg_catalog.<) ''Infinity''::pg_catalog.float8'::pg_catalog.text AS finite
          FROM (SELECT pg_catalog.format('SELECT %s AS id, n.distance, n.id::pg_catalog.text AS key FROM ',
                                         CASE WHEN numbered THEN 'n.id::bigint' ELSE 'NULL::bigint' END) AS shown,
                       '(SELECT s.id, %s AS distance FROM (%s) s ORDER BY distance LIMIT %s) n'::pg_catalog.text AS sorted) p) q
$$;
COMMENT ON FUNCTION dbinfer._nearest(text, text, integer, boolean, boolean, boolean) IS 'internal: the statement that finds the nearest embeddings';
GRANT EXECUTE ON FUNCTION dbinfer._nearest(text, text, integer, boolean, boolean, boolean) TO PUBLIC;
