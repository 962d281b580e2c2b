CREATE OR REPLACE FUNCTION dbinfer.predict_tensor(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._bytes('tensor', img, dbinfer._resolve(model, img IS NULL), on_error, 0)
$$;
COMMENT ON FUNCTION dbinfer.predict_tensor(bytea, text, text) IS 'first output of the model as little-endian float32, in row-major order';
GRANT EXECUTE ON FUNCTION dbinfer.predict_tensor(bytea, text, text) TO PUBLIC;
