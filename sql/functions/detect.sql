CREATE OR REPLACE FUNCTION dbinfer.detect(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error', tile boolean DEFAULT NULL)
RETURNS dbinfer.detection[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('detect', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error,
                     CASE WHEN tile THEN 1 WHEN NOT tile THEN -1 ELSE 0 END)::dbinfer.detection[]
$$;
COMMENT ON FUNCTION dbinfer.detect(bytea, text, text, boolean) IS
  'objects in an image, highest score first: label, class, score, and box in pixels of the image as shown; tile => true looks for them in overlapping tiles of a large image (NULL: as the model''s manifest says), e.g. SELECT id, unnest(dbinfer.detect(img, ''finder'')) FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.detect(bytea, text, text, boolean) TO PUBLIC;
