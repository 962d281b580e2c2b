-- In a FROM list the planner inlines it, on Greenplum, too; beside columns it does not.
CREATE OR REPLACE FUNCTION dbinfer.frames(img bytea, every interval DEFAULT NULL)
RETURNS TABLE(number integer, at interval, frame bytea) LANGUAGE sql STABLE PARALLEL SAFE ROWS 100 AS $$
SELECT f.number, f.microseconds OPERATOR(pg_catalog.*) '1 microsecond'::pg_catalog.interval, f.frame
FROM dbinfer._frames(img, pg_catalog.date_part('epoch', every), dbinfer._resolve('', false /* greenplum: OR img IS NULL */)) f
$$;
COMMENT ON FUNCTION dbinfer.frames(bytea, interval) IS
  'the frames of a film, the pictures of an animation or the pages of a TIFF, as lossless BMP files with their times; of each span `every` only the first, e.g. SELECT id, f.at, dbinfer.classify(f.frame, ''digits'') FROM images, dbinfer.frames(img, every => ''1 s'') f';
GRANT EXECUTE ON FUNCTION dbinfer.frames(bytea, interval) TO PUBLIC;
