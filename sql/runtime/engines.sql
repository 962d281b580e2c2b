CREATE OR REPLACE FUNCTION dbinfer_private.engines(settings text, action text) RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
session = GD.get("dbinfer")
# no settings: a segment that is finishing, see dbinfer_private.finishing
return session and settings and session.engines(plpy, settings, action)
$$;
COMMENT ON FUNCTION dbinfer_private.engines(text, text) IS 'facts of the engines of this host as JSON, after starting one, or stopping all or those of other runtimes';
REVOKE ALL ON FUNCTION dbinfer_private.engines(text, text) FROM PUBLIC;
