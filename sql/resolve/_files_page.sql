CREATE OR REPLACE FUNCTION dbinfer._files_page(folder text, last text, token text)
RETURNS TABLE(reference text, bytes bigint, etag text, modified text)
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 100000 ROWS 1000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "list", folder, "error", last)
$$;
COMMENT ON FUNCTION dbinfer._files_page(text, text, text) IS 'internal: the next files of a folder in a store; call dbinfer.list_files';
GRANT EXECUTE ON FUNCTION dbinfer._files_page(text, text, text) TO PUBLIC;
