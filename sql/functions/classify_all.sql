CREATE OR REPLACE FUNCTION dbinfer.classify_all(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.classification[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('classify_all', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.classification[]
$$;
COMMENT ON FUNCTION dbinfer.classify_all(bytea, text, text) IS
  'all classes of an image whose score reaches the threshold of the manifest, best first; an empty array where none does, e.g. SELECT id, unnest(dbinfer.classify_all(img, ''digits'')) FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.classify_all(bytea, text, text) TO PUBLIC;
