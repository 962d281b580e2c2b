CREATE OR REPLACE FUNCTION dbinfer_private.need_runtime(digest text) RETURNS boolean
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
session = GD.get("dbinfer")
# what a cancelled statement has fed goes
GD["dbinfer.modules"] = {}
return session is None or session.digest != digest
$$;
COMMENT ON FUNCTION dbinfer_private.need_runtime(text) IS 'whether this backend lacks the runtime of that digest';
REVOKE ALL ON FUNCTION dbinfer_private.need_runtime(text) FROM PUBLIC;
