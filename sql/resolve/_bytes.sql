-- The result leaves as bytea. Never uses plpy, which crashes parallel workers.
CREATE OR REPLACE FUNCTION dbinfer._bytes(task text, img bytea, token text, on_error text, k integer) RETURNS bytea
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, task, img, on_error, k)
$$;
COMMENT ON FUNCTION dbinfer._bytes(text, bytea, text, text, integer) IS 'internal: scores one image; call dbinfer.predict and the like';
GRANT EXECUTE ON FUNCTION dbinfer._bytes(text, bytea, text, text, integer) TO PUBLIC;
