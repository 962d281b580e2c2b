CREATE OR REPLACE FUNCTION dbinfer.predict(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS real[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
-- img IS NULL depends on the row without fetching the image; not STRICT and no SET, so that the planner inlines it
SELECT dbinfer._text('predict', img, dbinfer._resolve(model, img IS NULL), on_error, 0)::real[]
$$;
COMMENT ON FUNCTION dbinfer.predict(bytea, text, text) IS 'first output of the model, flattened in row-major order, e.g. SELECT dbinfer.predict(img, ''digits@2'') FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.predict(bytea, text, text) TO PUBLIC;
