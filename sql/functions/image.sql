CREATE OR REPLACE FUNCTION dbinfer.image(reference text, etag text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._image(reference, dbinfer._resolve('', false /* greenplum: OR reference IS NULL */), on_error, etag)
$$;
COMMENT ON FUNCTION dbinfer.image(text, text, text) IS
  'the image that lies in a store under store/path or its full address; etag (also sha256:...) refuses another version of it, on_error => ''null'' gives NULL where it is missing, changed or too large, e.g. SELECT dbinfer.classify(dbinfer.image(''photos/2024/1.jpg''), ''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.image(text, text, text) TO PUBLIC;
