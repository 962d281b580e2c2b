CREATE OR REPLACE FUNCTION dbinfer.predict_tensor(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error', output text DEFAULT NULL)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._output_bytes(img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, output)
$$;
COMMENT ON FUNCTION dbinfer.predict_tensor(bytea, text, text, text) IS
  'an output of the model, the first unless one is named, as little-endian float32 in row-major order, e.g. SELECT dbinfer.predict_tensor(img, ''digits'') FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.predict_tensor(bytea, text, text, text) TO PUBLIC;
