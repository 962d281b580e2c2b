-- dbinfer.predict of 0.1.0, which had no argument `output`: what users had made with it holds on to it under this name.
CREATE OR REPLACE FUNCTION dbinfer._predict(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS real[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._output(img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, NULL)::pg_catalog.float4[]
$$;
COMMENT ON FUNCTION dbinfer._predict(bytea, text, text) IS 'internal: dbinfer.predict in views that were made with 0.1.0';
GRANT EXECUTE ON FUNCTION dbinfer._predict(bytea, text, text) TO PUBLIC;
