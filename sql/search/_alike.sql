-- STRICT: a block without rows has no pairs.
CREATE OR REPLACE FUNCTION dbinfer._alike(ones bytea, others bytea, size integer, most double precision, token text)
RETURNS TABLE(one integer, other integer, distance double precision)
LANGUAGE plpython3u STABLE STRICT PARALLEL UNSAFE COST 10000 ROWS 1000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "alike", ones, "error", (others, size, most))
$$;
COMMENT ON FUNCTION dbinfer._alike(bytea, bytea, integer, double precision, text) IS 'internal: which embeddings of two blocks are nearly alike, by their places; call dbinfer.near_duplicates';
GRANT EXECUTE ON FUNCTION dbinfer._alike(bytea, bytea, integer, double precision, text) TO PUBLIC;
