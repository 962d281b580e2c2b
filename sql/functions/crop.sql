-- A composite IS NOT NULL only where none of its fields is: a detection may have no label.
CREATE OR REPLACE FUNCTION dbinfer.crop(img bytea, box anyelement, margin double precision DEFAULT 0)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._crop(CASE WHEN NOT box IS NULL AND margin IS NOT NULL THEN img END, pg_catalog.to_json(box)::pg_catalog.text, margin,
                     dbinfer._resolve('', false /* greenplum: OR img IS NULL */))
$$;
COMMENT ON FUNCTION dbinfer.crop(bytea, anyelement, double precision) IS
  'a part of the image as a lossless BMP, to be scored as any image; box: a detection, ARRAY[x, y, width, height], the type box, or four corners, which are straightened (ARRAY[x1, y1, ..., x4, y4] or a polygon); margin: part of its size to add on each side, e.g. SELECT id, dbinfer.classify(dbinfer.crop(img, d), ''digits'') FROM (SELECT id, img, unnest(dbinfer.detect(img, ''finder'')) AS d FROM images) s';
GRANT EXECUTE ON FUNCTION dbinfer.crop(bytea, anyelement, double precision) TO PUBLIC;
