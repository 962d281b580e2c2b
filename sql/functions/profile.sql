CREATE OR REPLACE FUNCTION dbinfer.profile(img bytea, model text DEFAULT NULL)
RETURNS jsonb LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('profile', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), 'error', 0)::pg_catalog.jsonb
$$;
COMMENT ON FUNCTION dbinfer.profile(bytea, text) IS
  'microseconds of decode, preprocess, infer and postprocess for one image, e.g. SELECT dbinfer.profile(img, ''digits'') FROM images LIMIT 1';
GRANT EXECUTE ON FUNCTION dbinfer.profile(bytea, text) TO PUBLIC;
