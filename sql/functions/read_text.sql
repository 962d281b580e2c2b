CREATE OR REPLACE FUNCTION dbinfer.read_text(img bytea, detector text, recogniser text, direction text DEFAULT NULL,
  min_score real DEFAULT 0.5, on_error text DEFAULT 'error')
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT pg_catalog.array_to_string(dbinfer._texts(dbinfer.read(img, detector, recogniser, direction, min_score, on_error)), E'\n')
$$;
COMMENT ON FUNCTION dbinfer.read_text(bytea, text, text, text, real, text) IS
  'what an image says, a line of text for each line in it; as dbinfer.read otherwise, e.g. SELECT id FROM images WHERE to_tsvector(dbinfer.read_text(img, ''lines'', ''letters'')) @@ to_tsquery(''invoice'')';
GRANT EXECUTE ON FUNCTION dbinfer.read_text(bytea, text, text, text, real, text) TO PUBLIC;
