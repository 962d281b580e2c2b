CREATE OR REPLACE FUNCTION dbinfer.segment(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error', tile boolean DEFAULT NULL)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._bytes('segment', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error,
                      CASE WHEN tile THEN 1 WHEN NOT tile THEN -1 ELSE 0 END)
$$;
COMMENT ON FUNCTION dbinfer.segment(bytea, text, text, boolean) IS
  'mask of an image: a PNG as large as the image, with 0 and 255, or class numbers; tile => true puts a large image through the network in overlapping tiles, each pixel as it is (NULL: as the model''s manifest says), e.g. SELECT dbinfer.segment(img, ''strokes'') FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.segment(bytea, text, text, boolean) TO PUBLIC;
