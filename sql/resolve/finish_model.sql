CREATE OR REPLACE FUNCTION dbinfer_private.finish_model() RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
GD["dbinfer"].finish_model(plpy)
$$;
COMMENT ON FUNCTION dbinfer_private.finish_model() IS 'checks the digests of the files taken and puts them into the host cache';
REVOKE ALL ON FUNCTION dbinfer_private.finish_model() FROM PUBLIC;
