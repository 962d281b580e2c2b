-- By one row: all embeddings of one model have as many values. A table without embeddings is an error. Names through %I, %s of regclass.
CREATE OR REPLACE FUNCTION dbinfer._embedding_size(embeddings regclass, source_column name, made_by text, model text)
RETURNS integer LANGUAGE plpgsql STABLE PARALLEL UNSAFE AS $$
DECLARE
  size integer;
BEGIN
  EXECUTE pg_catalog.format('SELECT pg_catalog.cardinality(%1$I::pg_catalog.float4[]) FROM %2$s WHERE %1$I IS NOT NULL AND %3$s LIMIT 1',
    source_column, embeddings, made_by) INTO size;
  IF size IS NULL THEN
    RAISE no_data_found USING MESSAGE = pg_catalog.format('dbinfer: %s has no embeddings of %s', embeddings, coalesce(model, 'the default model')),
      HINT = 'Make them: dbinfer score --table images --predictions embeddings --function embed';
  END IF;
  RETURN size;
END $$;
COMMENT ON FUNCTION dbinfer._embedding_size(regclass, name, text, text) IS 'internal: how many values the embeddings of a model have in a table';
GRANT EXECUTE ON FUNCTION dbinfer._embedding_size(regclass, name, text, text) TO PUBLIC;
