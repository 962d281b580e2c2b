CREATE OR REPLACE FUNCTION dbinfer.detect_into(results regclass, images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
SELECT dbinfer._into(results, 'detections', 's.r', 'q.result::dbinfer.detection[]', 'detect',
                     images, model, on_error, id_column, img_column)
$$;
COMMENT ON FUNCTION dbinfer.detect_into(regclass, regclass, text, text, name, name) IS
  'adds the objects in every row of a table to results, an existing table (id, detections); returns the number of rows, e.g. SELECT dbinfer.detect_into(''objects'', ''images'', ''finder'')';
GRANT EXECUTE ON FUNCTION dbinfer.detect_into(regclass, regclass, text, text, name, name) TO PUBLIC;
