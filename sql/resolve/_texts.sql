CREATE OR REPLACE FUNCTION dbinfer._texts(lines dbinfer.text_line[]) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE WHEN lines IS NOT NULL THEN coalesce(ARRAY(SELECT l.text FROM pg_catalog.unnest(lines) l), '{}') END
$$;
COMMENT ON FUNCTION dbinfer._texts(dbinfer.text_line[]) IS 'internal: the texts of lines; call dbinfer.read_text';
GRANT EXECUTE ON FUNCTION dbinfer._texts(dbinfer.text_line[]) TO PUBLIC;
