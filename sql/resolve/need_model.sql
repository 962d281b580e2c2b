CREATE OR REPLACE FUNCTION dbinfer_private.need_model(xml_digest text, bin_digest text, settings text) RETURNS boolean
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
return GD["dbinfer"].need_model(plpy, xml_digest, bin_digest, settings)
$$;
COMMENT ON FUNCTION dbinfer_private.need_model(text, text, text) IS 'whether the host cache lacks the files of a model, or holds damaged ones';
REVOKE ALL ON FUNCTION dbinfer_private.need_model(text, text, text) FROM PUBLIC;
