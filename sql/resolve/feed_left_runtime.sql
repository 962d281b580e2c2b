CREATE OR REPLACE FUNCTION dbinfer_private.feed_left_runtime() RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
import json
with open(GD["dbinfer.left"] + "runtime") as source:
    GD["dbinfer.modules"] = json.load(source)
$$;
COMMENT ON FUNCTION dbinfer_private.feed_left_runtime() IS 'takes the modules of the runtime that the dispatcher of this session has left';
REVOKE ALL ON FUNCTION dbinfer_private.feed_left_runtime() FROM PUBLIC;
