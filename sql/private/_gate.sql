-- First half of resolving a model: a hit for this (model, user, statement), else notes who asks. Never uses plpy.
CREATE OR REPLACE FUNCTION dbinfer._gate(model text) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE AS $$
gate = GD.get("dbinfer.gate")
if gate is not None: return gate(model)
import ctypes
GD["dbinfer.pending"] = (model, ctypes.PyDLL(None).GetUserId() & 0xFFFFFFFF)
$$;
COMMENT ON FUNCTION dbinfer._gate(text) IS 'internal: the token of a model that this statement has resolved, else NULL';
ALTER FUNCTION dbinfer._gate(text) OWNER TO dbinfer_owner;
