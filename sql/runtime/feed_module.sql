CREATE OR REPLACE FUNCTION dbinfer_private.feed_module(name text, source text) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
GD["dbinfer.modules"][name] = source
$$;
COMMENT ON FUNCTION dbinfer_private.feed_module(text, text) IS 'takes one module of the runtime';
REVOKE ALL ON FUNCTION dbinfer_private.feed_module(text, text) FROM PUBLIC;
