-- First half of resolving a model: a hit for this (model, user, statement), else notes who asks. Never uses plpy.
CREATE OR REPLACE FUNCTION dbinfer._gate(model text) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE AS $$
gate = GD.get("dbinfer.gate")
if gate is not None: return gate(model)
import ctypes; c = ctypes.PyDLL(None); c.GetCurrentTransactionStartTimestamp.restype = ctypes.c_int64
GD["dbinfer.pending"] = (model, c.GetUserId() & 0xFFFFFFFF, c.GetCurrentTransactionStartTimestamp(), c.GetCurrentSubTransactionId())
$$;
COMMENT ON FUNCTION dbinfer._gate(text) IS 'internal: the token of a model that this statement has resolved, else NULL';
ALTER FUNCTION dbinfer._gate(text) OWNER TO dbinfer_owner;
GRANT EXECUTE ON FUNCTION dbinfer._gate(text) TO PUBLIC;
