CREATE OR REPLACE FUNCTION dbinfer_private.status(settings text) RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
session = GD.get("dbinfer")
# no settings: a segment that is finishing, see dbinfer_private.finishing
return session and settings and session.status(plpy, settings)
$$;
COMMENT ON FUNCTION dbinfer_private.status(text) IS 'facts of this backend and its host as JSON';
REVOKE ALL ON FUNCTION dbinfer_private.status(text) FROM PUBLIC;
