CREATE OR REPLACE FUNCTION dbinfer.classify(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.classification LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('classify', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.classification
$$;
COMMENT ON FUNCTION dbinfer.classify(bytea, text, text) IS
  'best class of an image: its number, its label and its score, e.g. SELECT (dbinfer.classify(img, ''digits'')).label FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.classify(bytea, text, text) TO PUBLIC;
