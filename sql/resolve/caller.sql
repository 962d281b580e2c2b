-- The user that dbinfer._gate noted for this model, once and in the same subtransaction: what an error left behind in a
-- definer function is worth nothing to the caller of that function.
CREATE OR REPLACE FUNCTION dbinfer_private.caller(model text) RETURNS oid
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
pending = GD.pop("dbinfer.pending", None)
import ctypes; c = ctypes.PyDLL(None); c.GetCurrentTransactionStartTimestamp.restype = ctypes.c_int64
now = (c.GetCurrentTransactionStartTimestamp(), c.GetCurrentSubTransactionId())
return pending[1] if pending is not None and pending[0] == model and pending[2:] == now else None
$$;
COMMENT ON FUNCTION dbinfer_private.caller(text) IS 'the user that dbinfer._gate noted for this model, once; NULL for anybody else';
REVOKE ALL ON FUNCTION dbinfer_private.caller(text) FROM PUBLIC;
ALTER FUNCTION dbinfer_private.caller(text) OWNER TO dbinfer_owner;
