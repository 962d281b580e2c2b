-- A function of its own, because a reference is text. Never uses plpy, which crashes parallel workers.
CREATE OR REPLACE FUNCTION dbinfer._image(reference text, token text, on_error text, etag text) RETURNS bytea
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 100000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "image", reference, on_error, etag)
$$;
COMMENT ON FUNCTION dbinfer._image(text, text, text, text) IS 'internal: fetches one image; call dbinfer.image';
GRANT EXECUTE ON FUNCTION dbinfer._image(text, text, text, text) TO PUBLIC;
