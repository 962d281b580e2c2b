-- In a FROM list the planner inlines it, as frames.
CREATE OR REPLACE FUNCTION dbinfer.tiles(img bytea, size integer DEFAULT 512, overlap integer DEFAULT 64)
RETURNS TABLE(x integer, y integer, tile bytea) LANGUAGE sql STABLE PARALLEL SAFE ROWS 100 AS $$
SELECT t.x, t.y, t.tile FROM dbinfer._tiles(img, size, overlap, dbinfer._resolve('', false /* greenplum: OR img IS NULL */)) t
$$;
COMMENT ON FUNCTION dbinfer.tiles(bytea, integer, integer) IS
  'overlapping squares of an image, row by row, as lossless BMP files with their upper left corners in pixels; of a TIFF no more is decoded at once than a row of them needs, e.g. SELECT id, t.x, t.y, dbinfer.classify(t.tile, ''digits'') FROM images, dbinfer.tiles(img, 256, 0) t';
GRANT EXECUTE ON FUNCTION dbinfer.tiles(bytea, integer, integer) TO PUBLIC;
