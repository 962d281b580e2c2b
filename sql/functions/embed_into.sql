CREATE OR REPLACE FUNCTION dbinfer.embed_into(results regclass, images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
SELECT dbinfer._into(results, 'embedding', 's.r', 'q.result::pg_catalog.float4[]', 'embed',
                     images, model, on_error, id_column, img_column)
$$;
COMMENT ON FUNCTION dbinfer.embed_into(regclass, regclass, text, text, name, name) IS
  'adds the embedding of every row of a table to results, an existing table (id, embedding); returns the number of rows, e.g. SELECT dbinfer.embed_into(''embeddings'', ''images'', ''features'')';
GRANT EXECUTE ON FUNCTION dbinfer.embed_into(regclass, regclass, text, text, name, name) TO PUBLIC;
