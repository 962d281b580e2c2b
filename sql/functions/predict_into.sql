CREATE OR REPLACE FUNCTION dbinfer.predict_into(results regclass, images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
SELECT dbinfer._into(results, '"values"', 's.r', 'q.result::pg_catalog.float4[]', 'predict',
                     images, model, on_error, id_column, img_column)
$$;
COMMENT ON FUNCTION dbinfer.predict_into(regclass, regclass, text, text, name, name) IS
  'adds the first output for every row of a table to results, an existing table (id, values); returns the number of rows, e.g. SELECT dbinfer.predict_into(''outputs'', ''images'', ''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.predict_into(regclass, regclass, text, text, name, name) TO PUBLIC;
