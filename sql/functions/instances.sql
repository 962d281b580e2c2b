CREATE OR REPLACE FUNCTION dbinfer.instances(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS dbinfer.instance[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('instances', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.instance[]
$$;
COMMENT ON FUNCTION dbinfer.instances(bytea, text, text) IS
  'objects in an image as dbinfer.detect finds them, each with its mask or its keypoints, if the model has these, e.g. SELECT id, unnest(dbinfer.instances(img, ''finder'')) FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.instances(bytea, text, text) TO PUBLIC;
