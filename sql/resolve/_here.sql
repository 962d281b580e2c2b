-- On a segment. `empty` depends on the row, so that the planner does not fold the call on the coordinator. Never uses plpy.
CREATE OR REPLACE FUNCTION dbinfer._here(token text, empty boolean) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE AS $$
# left for _admit_segment: the same expression in its arguments could be folded into another token
GD["dbinfer.wanted"] = token
session = GD.get("dbinfer")
return None if session is None else session.here(token)
$$;
COMMENT ON FUNCTION dbinfer._here(text, boolean) IS 'internal: the token where this process holds it, else NULL';
GRANT EXECUTE ON FUNCTION dbinfer._here(text, boolean) TO PUBLIC;
