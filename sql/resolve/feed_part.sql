CREATE OR REPLACE FUNCTION dbinfer_private.feed_part(kind text, data bytea) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
GD["dbinfer"].feed_part(plpy, kind, data)
$$;
COMMENT ON FUNCTION dbinfer_private.feed_part(text, bytea) IS 'takes one part of a model file (kind xml or bin)';
REVOKE ALL ON FUNCTION dbinfer_private.feed_part(text, bytea) FROM PUBLIC;
