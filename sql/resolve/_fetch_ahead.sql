-- Volatile: called once a row. What it returns is an image in this process only, for _take, which waits for it when the rows before
-- it are scored. Never uses plpy, which crashes parallel workers.
CREATE OR REPLACE FUNCTION dbinfer._fetch_ahead(reference text, token text, on_error text) RETURNS bytea
LANGUAGE plpython3u VOLATILE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "ask", reference, on_error, None)
$$;
COMMENT ON FUNCTION dbinfer._fetch_ahead(text, text, text) IS 'internal: begins to fetch an image; call dbinfer.image';
GRANT EXECUTE ON FUNCTION dbinfer._fetch_ahead(text, text, text) TO PUBLIC;
