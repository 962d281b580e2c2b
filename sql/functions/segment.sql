CREATE OR REPLACE FUNCTION dbinfer.segment(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._bytes('segment', img, dbinfer._resolve(model, img IS NULL), on_error, 0)
$$;
COMMENT ON FUNCTION dbinfer.segment(bytea, text, text) IS
  'mask of an image: a PNG as large as the image, with 0 and 255, or class numbers, e.g. SELECT dbinfer.segment(img, ''strokes'') FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.segment(bytea, text, text) TO PUBLIC;
