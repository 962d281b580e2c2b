-- the user that dbinfer._gate noted for this model, once; NULL for anybody else
CREATE OR REPLACE FUNCTION dbinfer_private.caller(model text) RETURNS oid
LANGUAGE plpython3u VOLATILE PARALLEL SAFE AS $$
pending = GD.pop("dbinfer.pending", None)
return pending[1] if pending is not None and pending[0] == model else None
$$;
COMMENT ON FUNCTION dbinfer_private.caller(text) IS 'the user that dbinfer._gate noted for this model, once; NULL for anybody else';
REVOKE ALL ON FUNCTION dbinfer_private.caller(text) FROM PUBLIC;
ALTER FUNCTION dbinfer_private.caller(text) OWNER TO dbinfer_owner;
