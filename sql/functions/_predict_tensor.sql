-- dbinfer.predict_tensor of 0.1.0, which had no argument `output`: what users had made with it holds on to it under this name.
CREATE OR REPLACE FUNCTION dbinfer._predict_tensor(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._output_bytes(img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, NULL)
$$;
COMMENT ON FUNCTION dbinfer._predict_tensor(bytea, text, text) IS 'internal: dbinfer.predict_tensor in views that were made with 0.1.0';
GRANT EXECUTE ON FUNCTION dbinfer._predict_tensor(bytea, text, text) TO PUBLIC;
