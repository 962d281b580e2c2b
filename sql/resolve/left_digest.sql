-- The path is relative, because a server process works in its data directory. The folder's owner is checked,
-- because another user who could make this folder would choose the source that runs here.
CREATE OR REPLACE FUNCTION dbinfer_private.left_digest() RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
import ctypes, os
GD["dbinfer.left"] = place = "dbinfer_entry/%d/" % ctypes.c_int.in_dll(ctypes.PyDLL(None), "gp_session_id").value
if os.path.isdir(place) and os.stat(place).st_uid == os.geteuid():
    with open(place + "digest") as source:
        return source.read()
$$;
COMMENT ON FUNCTION dbinfer_private.left_digest() IS 'the digest of the runtime that the dispatcher of this session uses; NULL where it has left nothing';
REVOKE ALL ON FUNCTION dbinfer_private.left_digest() FROM PUBLIC;
