-- On a segment: the token where this process holds it, else notes who asks and returns NULL. `empty` depends on the
-- row, so that the planner does not fold the call on the coordinator. Never uses plpy.
CREATE OR REPLACE FUNCTION dbinfer._here(token text, empty boolean) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE AS $$
session = GD.get("dbinfer")
if session is not None: return session.here(token)
import ctypes; c = ctypes.PyDLL(None); c.GetCurrentTransactionStartTimestamp.restype = ctypes.c_int64
GD["dbinfer.pending"] = (token, c.GetUserId() & 0xFFFFFFFF, c.GetCurrentTransactionStartTimestamp(), c.GetCurrentSubTransactionId())
$$;
COMMENT ON FUNCTION dbinfer._here(text, boolean) IS 'internal: the token where this process holds it, else NULL';
ALTER FUNCTION dbinfer._here(text, boolean) OWNER TO dbinfer_owner;
GRANT EXECUTE ON FUNCTION dbinfer._here(text, boolean) TO PUBLIC;
