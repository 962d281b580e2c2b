CREATE OR REPLACE FUNCTION dbinfer_private.pack(sources text, digest text) RETURNS bytea
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
import json
scope = {"__name__": "dbinfer_bootstrap"}
exec(json.loads(sources)["bootstrap"], scope)
return scope["packed"](sources, digest)
$$;
COMMENT ON FUNCTION dbinfer_private.pack(text, text) IS 'the modules of a runtime (a JSON object of sources) compiled by the Python of this process';
REVOKE ALL ON FUNCTION dbinfer_private.pack(text, text) FROM PUBLIC;
