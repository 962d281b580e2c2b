CREATE OR REPLACE FUNCTION dbinfer.segment_into(results regclass, images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
SELECT dbinfer._into(results, 'mask', 's.r', 'q.file', 'segment',
                     images, model, on_error, id_column, img_column)
$$;
COMMENT ON FUNCTION dbinfer.segment_into(regclass, regclass, text, text, name, name) IS
  'adds the mask of every row of a table to results, an existing table (id, mask); returns the number of rows, e.g. SELECT dbinfer.segment_into(''masks'', ''images'', ''strokes'')';
GRANT EXECUTE ON FUNCTION dbinfer.segment_into(regclass, regclass, text, text, name, name) TO PUBLIC;
