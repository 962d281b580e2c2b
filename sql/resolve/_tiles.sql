CREATE OR REPLACE FUNCTION dbinfer._tiles(img bytea, size integer, overlap integer, token text)
RETURNS TABLE(x integer, y integer, tile bytea)
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 1000000 ROWS 100 AS $$
-- include shared/ticket.sql
return ticket.each(plpy, "tiles", img, (size, overlap))
$$;
COMMENT ON FUNCTION dbinfer._tiles(bytea, integer, integer, text) IS 'internal: the tiles of an image; call dbinfer.tiles';
GRANT EXECUTE ON FUNCTION dbinfer._tiles(bytea, integer, integer, text) TO PUBLIC;
