-- The output of that name, or the first, as text; _text has no place for a name. Never uses plpy, which crashes parallel workers.
CREATE OR REPLACE FUNCTION dbinfer._output(img bytea, token text, on_error text, output text) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "predict", img, on_error, output)
$$;
COMMENT ON FUNCTION dbinfer._output(bytea, text, text, text) IS 'internal: scores one image; call dbinfer.predict';
GRANT EXECUTE ON FUNCTION dbinfer._output(bytea, text, text, text) TO PUBLIC;
