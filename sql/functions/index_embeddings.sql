-- With the caller's rights: the server refuses a role that may not make an index on the table. A partial index where the table
-- keeps embeddings of several versions.
CREATE OR REPLACE FUNCTION dbinfer.index_embeddings(embeddings regclass, model text DEFAULT NULL, method text DEFAULT NULL,
  source_column name DEFAULT 'embedding')
RETURNS text LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
  place pg_catalog.text;
  made_by pg_catalog.text := coalesce(dbinfer._embedded_by(embeddings, model), 'true');
  chosen pg_catalog.text := coalesce(method, CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_am a WHERE a.amname OPERATOR(pg_catalog.=) 'hnsw')
                                                  THEN 'hnsw' ELSE 'ivfflat' END);
  dimensions integer;
BEGIN
  SELECT pg_catalog.quote_ident(n.nspname) INTO place
    FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
   WHERE e.extname OPERATOR(pg_catalog.=) 'vector';
  IF place IS NULL THEN
    RAISE feature_not_supported USING MESSAGE = 'dbinfer: the extension vector (pgvector) is not in this database',
      HINT = 'Install the server''s package (postgresql-15-pgvector, for example), then: CREATE EXTENSION vector. Without it dbinfer.similar reads all embeddings.';
  ELSIF chosen OPERATOR(pg_catalog.<>) ALL ('{hnsw,ivfflat}'::pg_catalog.text[]) THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: method is %L, but must be hnsw or ivfflat', chosen);
  END IF;
  dimensions := dbinfer._embedding_size(embeddings, source_column, made_by, model);
  EXECUTE pg_catalog.format('CREATE INDEX ON %s USING %I ((%I%s) %s.vector_cosine_ops) WHERE %s', embeddings, chosen, source_column,
    dbinfer._vector_cast(dimensions), place, made_by);
  RETURN chosen;
END $$;
COMMENT ON FUNCTION dbinfer.index_embeddings(regclass, text, text, name) IS
  'makes pgvector''s index (hnsw or ivfflat) for dbinfer.similar; returns which, e.g. SELECT dbinfer.index_embeddings(''embeddings'', ''features'')';
GRANT EXECUTE ON FUNCTION dbinfer.index_embeddings(regclass, text, text, name) TO PUBLIC;
