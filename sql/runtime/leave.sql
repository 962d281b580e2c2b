CREATE OR REPLACE FUNCTION dbinfer_private.leave(settings text) RETURNS integer
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
return GD["dbinfer"].leave(plpy, settings)
$$;
COMMENT ON FUNCTION dbinfer_private.leave(text) IS 'removes from the host cache what only this database has used; how many models that were';
REVOKE ALL ON FUNCTION dbinfer_private.leave(text) FROM PUBLIC;
