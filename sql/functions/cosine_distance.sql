-- In plain SQL, for servers without pgvector.
CREATE OR REPLACE FUNCTION dbinfer.cosine_distance(a real[], b real[])
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE COST 1000 AS $$
-- brackets, because all operators that are written so bind alike
SELECT CASE WHEN pg_catalog.cardinality(a) OPERATOR(pg_catalog.=) pg_catalog.cardinality(b) THEN
         (SELECT 1 OPERATOR(pg_catalog.-) (s.xy OPERATOR(pg_catalog./) CASE WHEN s.xx OPERATOR(pg_catalog.>) 0 AND s.yy OPERATOR(pg_catalog.>) 0
                                                       THEN pg_catalog.sqrt(s.xx) OPERATOR(pg_catalog.*) pg_catalog.sqrt(s.yy) END)
            FROM (SELECT pg_catalog.sum(t.x OPERATOR(pg_catalog.*) t.y) AS xy, pg_catalog.sum(t.x OPERATOR(pg_catalog.*) t.x) AS xx,
                         pg_catalog.sum(t.y OPERATOR(pg_catalog.*) t.y) AS yy
                    FROM (SELECT w.x::double precision AS x, w.y::double precision AS y
                            FROM ROWS FROM (pg_catalog.unnest(a), pg_catalog.unnest(b)) w(x, y)) t) s)
       END
$$;
COMMENT ON FUNCTION dbinfer.cosine_distance(real[], real[]) IS
  '0 where two embeddings have the same direction, 1 at right angles, 2 for opposite ones; NULL where they cannot be compared, e.g. SELECT dbinfer.cosine_distance(a.embedding, b.embedding) FROM embeddings a, embeddings b WHERE a.id = 1 AND b.id = 2';
GRANT EXECUTE ON FUNCTION dbinfer.cosine_distance(real[], real[]) TO PUBLIC;
