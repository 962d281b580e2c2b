CREATE OR REPLACE FUNCTION dbinfer_private.count_usage(token text, caller oid) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
GD["dbinfer"].usage().count(token, caller)
$$;
COMMENT ON FUNCTION dbinfer_private.count_usage(text, oid) IS 'counts the rows that are scored under a token, for a role';
REVOKE ALL ON FUNCTION dbinfer_private.count_usage(text, oid) FROM PUBLIC;
