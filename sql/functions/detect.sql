CREATE OR REPLACE FUNCTION dbinfer.detect(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.detection[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('detect', img, dbinfer._resolve(model, img IS NULL), on_error, 0)::dbinfer.detection[]
$$;
COMMENT ON FUNCTION dbinfer.detect(bytea, text, text) IS
  'objects in an image, highest score first: label, class, score, and box in pixels of the image as shown, e.g. SELECT id, unnest(dbinfer.detect(img, ''finder'')) FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.detect(bytea, text, text) TO PUBLIC;
