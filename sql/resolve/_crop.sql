CREATE OR REPLACE FUNCTION dbinfer._crop(img bytea, box text, margin double precision, token text) RETURNS bytea
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "crop", img, "error", (box, margin))
$$;
COMMENT ON FUNCTION dbinfer._crop(bytea, text, double precision, text) IS 'internal: cuts a part out of one image; call dbinfer.crop';
GRANT EXECUTE ON FUNCTION dbinfer._crop(bytea, text, double precision, text) TO PUBLIC;
