-- The token under which a row is scored. On PostgreSQL each process resolves the model once per statement. On Greenplum
-- the inner call is folded to a constant on the coordinator at plan time, when no segment works; each segment then admits
-- itself to that token at its first row. An SQL function that the planner inlines, on both; never STRICT, no SET.
CREATE OR REPLACE FUNCTION dbinfer._resolve(model text, empty boolean) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
-- _gate first: from a statement's second row on nothing else is called
SELECT /* greenplum: coalesce(dbinfer._here( */coalesce(dbinfer._gate(model), dbinfer._admit(model, dbinfer._ask(model)))/* greenplum: , empty),
                dbinfer._admit_segment(dbinfer._ask(NULL, empty))) */
$$;
COMMENT ON FUNCTION dbinfer._resolve(text, boolean) IS 'internal: the token of a model in this statement and process';
GRANT EXECUTE ON FUNCTION dbinfer._resolve(text, boolean) TO PUBLIC;
