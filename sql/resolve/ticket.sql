CREATE OR REPLACE FUNCTION dbinfer_private.ticket(caller oid, model text, version_id integer, facts text, token text) RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
return GD["dbinfer"].ticket(caller, model, version_id, facts, token)
$$;
COMMENT ON FUNCTION dbinfer_private.ticket(oid, text, integer, text, text) IS 'the token under which this backend scores with a version in this statement';
REVOKE ALL ON FUNCTION dbinfer_private.ticket(oid, text, integer, text, text) FROM PUBLIC;
