-- As dbinfer._text, for statements of ours that know the row's key, which an error then names.
CREATE OR REPLACE FUNCTION dbinfer._text_of_row(task text, id bigint, img bytea, token text, on_error text) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, task, img, on_error, 0, id)
$$;
COMMENT ON FUNCTION dbinfer._text_of_row(text, bigint, bytea, text, text) IS 'internal: scores the image of one row; call dbinfer.similar';
GRANT EXECUTE ON FUNCTION dbinfer._text_of_row(text, bigint, bytea, text, text) TO PUBLIC;
