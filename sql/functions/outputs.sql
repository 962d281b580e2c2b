-- In a FROM list the planner inlines it, as frames.
CREATE OR REPLACE FUNCTION dbinfer.outputs(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS TABLE(name text, shape integer[], "values" real[]) LANGUAGE sql STABLE PARALLEL SAFE ROWS 4 AS $$
SELECT r.name, r.shape::integer[], r."values"::real[]
  FROM pg_catalog.json_to_recordset(dbinfer._text('outputs', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::pg_catalog.json)
    AS r(name pg_catalog.text, shape pg_catalog.text, "values" pg_catalog.text)
$$;
COMMENT ON FUNCTION dbinfer.outputs(bytea, text, text) IS
  'every output of the network, in its order: name (NULL where it has only one), shape (of one image: the first number is often 1), and values flattened in row-major order, e.g. SELECT id, o.name, o.shape, o."values" FROM images, dbinfer.outputs(img, ''digits'') o';
GRANT EXECUTE ON FUNCTION dbinfer.outputs(bytea, text, text) TO PUBLIC;
