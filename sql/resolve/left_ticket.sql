CREATE OR REPLACE FUNCTION dbinfer_private.left_ticket(caller oid, model text, token text) RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
return GD["dbinfer"].take(plpy, caller, model, token)
$$;
COMMENT ON FUNCTION dbinfer_private.left_ticket(oid, text, text) IS 'the token of a ticket that the dispatcher of this session has left, which then counts here; NULL without one';
REVOKE ALL ON FUNCTION dbinfer_private.left_ticket(oid, text, text) FROM PUBLIC;
