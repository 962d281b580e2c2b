CREATE OR REPLACE FUNCTION dbinfer.embed(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS real[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('embed', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::real[]
$$;
COMMENT ON FUNCTION dbinfer.embed(bytea, text, text) IS
  'embedding of an image; of length one if the manifest says l2_normalize, e.g. SELECT dbinfer.embed(img, ''features'') FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.embed(bytea, text, text) TO PUBLIC;
