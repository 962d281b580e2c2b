CREATE OR REPLACE FUNCTION dbinfer_private.cache(settings text, digests text[]) RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
session = GD.get("dbinfer")
# no settings: a segment that is finishing, see dbinfer_private.finishing
return session and settings and session.cache(plpy, settings, digests)
$$;
COMMENT ON FUNCTION dbinfer_private.cache(text, text[]) IS 'facts of the host cache as JSON; removes idle models that are not among the digests, none where these are NULL';
REVOKE ALL ON FUNCTION dbinfer_private.cache(text, text[]) FROM PUBLIC;
