CREATE OR REPLACE FUNCTION dbinfer.classify_into(results regclass, images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS bigint LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
SELECT dbinfer._into(results, 'class, label, score', '(s.r).class, (s.r).label, (s.r).score', 'q.result::dbinfer.classification', 'classify',
                     images, model, on_error, id_column, img_column)
$$;
COMMENT ON FUNCTION dbinfer.classify_into(regclass, regclass, text, text, name, name) IS
  'adds the best class of every row of a table to results, an existing table (id, class, label, score); returns the number of rows, e.g. SELECT dbinfer.classify_into(''classes'', ''images'', ''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.classify_into(regclass, regclass, text, text, name, name) TO PUBLIC;
