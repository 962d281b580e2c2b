CREATE OR REPLACE FUNCTION dbinfer.read_line(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.reading LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('read_line', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.reading
$$;
COMMENT ON FUNCTION dbinfer.read_line(bytea, text, text) IS
  'what an image of a single line of text says: the text and its score, e.g. SELECT (dbinfer.read_line(img, ''letters'')).text FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.read_line(bytea, text, text) TO PUBLIC;
