-- Never uses plpy, which crashes parallel workers and Greenplum's coordinator above a Motion.
CREATE OR REPLACE FUNCTION dbinfer._gate(model text) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE AS $$
gate = GD.get("dbinfer.gate")
if gate is not None:
    return gate(model)
$$;
COMMENT ON FUNCTION dbinfer._gate(text) IS 'internal: the token that this user resolved for the model in this statement, else NULL';
GRANT EXECUTE ON FUNCTION dbinfer._gate(text) TO PUBLIC;
