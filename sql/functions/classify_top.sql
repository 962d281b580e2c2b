CREATE OR REPLACE FUNCTION dbinfer.classify_top(img bytea, k integer, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.classification[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('classify_top', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, k)::dbinfer.classification[]
$$;
COMMENT ON FUNCTION dbinfer.classify_top(bytea, integer, text, text) IS
  'the k best classes of an image, best first, e.g. SELECT id, unnest(dbinfer.classify_top(img, 3, ''digits'')) FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.classify_top(bytea, integer, text, text) TO PUBLIC;
