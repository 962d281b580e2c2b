-- With the caller's rights, so that _ask notes the acting role.
CREATE OR REPLACE FUNCTION dbinfer.request(img bytea, model text DEFAULT NULL, function text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF img IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN dbinfer._request(img, model, function, dbinfer._ask('dbinfer request'));
END $$;
COMMENT ON FUNCTION dbinfer.request(bytea, text, text) IS
  'lets a worker (dbinfer worker) score one image; returns the number by which dbinfer.answer gives the result, once this transaction has committed, e.g. SELECT dbinfer.request(img, ''digits'') FROM images WHERE id = 1';
GRANT EXECUTE ON FUNCTION dbinfer.request(bytea, text, text) TO PUBLIC;
