CREATE OR REPLACE FUNCTION dbinfer.predict(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error', output text DEFAULT NULL)
RETURNS real[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
-- img IS NULL depends on the row without fetching the image; not STRICT and no SET, so that the planner inlines it
SELECT dbinfer._output(img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, output)::real[]
$$;
COMMENT ON FUNCTION dbinfer.predict(bytea, text, text, text) IS
  'an output of the model, the first unless one is named, flattened in row-major order, e.g. SELECT dbinfer.predict(img, ''digits@2'') FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.predict(bytea, text, text, text) TO PUBLIC;
