-- dbinfer.detect before 0.6.0, which had no argument `tile`: what users had made with it holds on to it under this name.
CREATE OR REPLACE FUNCTION dbinfer._detect_image(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.detection[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('detect', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.detection[]
$$;
COMMENT ON FUNCTION dbinfer._detect_image(bytea, text, text) IS 'internal: dbinfer.detect in views that were made before 0.6.0';
GRANT EXECUTE ON FUNCTION dbinfer._detect_image(bytea, text, text) TO PUBLIC;
