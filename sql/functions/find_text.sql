CREATE OR REPLACE FUNCTION dbinfer.find_text(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.text_line[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('find_text', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.text_line[]
$$;
COMMENT ON FUNCTION dbinfer.find_text(bytea, text, text) IS
  'where lines of text are in an image, in reading order: score and four corners of each, e.g. SELECT id, unnest(dbinfer.find_text(img, ''lines'')) FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.find_text(bytea, text, text) TO PUBLIC;
