CREATE OR REPLACE FUNCTION dbinfer.image_info(img bytea)
RETURNS dbinfer.image_facts LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('image_info', img, dbinfer._resolve('', false /* greenplum: OR img IS NULL */), 'error', 0)::dbinfer.image_facts
$$;
COMMENT ON FUNCTION dbinfer.image_info(bytea) IS
  'format, width, height, channels and bytes of an image, read from its header without decoding pixels, e.g. SELECT id, (dbinfer.image_info(img)).* FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.image_info(bytea) TO PUBLIC;
