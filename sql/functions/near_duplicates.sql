CREATE OR REPLACE FUNCTION dbinfer.near_duplicates(embeddings regclass, most double precision DEFAULT 0.02, model text DEFAULT NULL,
  id_column name DEFAULT 'id', source_column name DEFAULT 'embedding')
RETURNS TABLE(id bigint, other bigint, distance double precision) LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 1000 COST 1000000 AS $$
DECLARE
  stored pg_catalog.text;
BEGIN
  IF most IS NULL OR most OPERATOR(pg_catalog.<) 0 THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: most is %s, but must be 0 or more', coalesce(most::pg_catalog.text, 'NULL'));
  END IF;
  stored := dbinfer._embeddings(embeddings, model, 'error', id_column, source_column, NULL);
  RETURN QUERY EXECUTE pg_catalog.format('SELECT p.id, p.other, p.distance FROM (SELECT a.id, b.id AS other, %s AS distance FROM (%s) a JOIN (%2$s) b
       ON a.id OPERATOR(pg_catalog.<) b.id) p WHERE p.distance OPERATOR(pg_catalog.<=) $1', dbinfer._distance('a.e', 'b.e'), stored) USING most;
END $$;
COMMENT ON FUNCTION dbinfer.near_duplicates(regclass, double precision, text, name, name) IS 'the pairs of rows whose embeddings are at most this cosine distance apart';
GRANT EXECUTE ON FUNCTION dbinfer.near_duplicates(regclass, double precision, text, name, name) TO PUBLIC;
