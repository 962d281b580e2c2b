CREATE OR REPLACE FUNCTION dbinfer._frames(img bytea, every double precision, token text)
RETURNS TABLE(number integer, microseconds bigint, frame bytea)
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 1000000 ROWS 100 AS $$
-- include shared/ticket.sql
return ticket.each(plpy, "frames", img, every)
$$;
COMMENT ON FUNCTION dbinfer._frames(bytea, double precision, text) IS 'internal: the frames of an animation or a film; call dbinfer.frames';
GRANT EXECUTE ON FUNCTION dbinfer._frames(bytea, double precision, text) TO PUBLIC;
