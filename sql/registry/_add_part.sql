-- Versions share parts by digest, so a wrong digest would damage other models.
CREATE OR REPLACE FUNCTION dbinfer._add_part(part_digest text, content bytea) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- IS NOT TRUE: NULL is refused as well
  IF (dbinfer_private.digest(content) = part_digest) IS NOT TRUE THEN
    RAISE data_exception USING MESSAGE = 'the content of the part does not match its digest',
      HINT = 'It was damaged in transit. Deploy the model again.';
  END IF;
  PERFORM dbinfer_private.add_part(part_digest, content);
END $$;
COMMENT ON FUNCTION dbinfer._add_part(text, bytea) IS 'internal: stores one part of a model file';
REVOKE ALL ON FUNCTION dbinfer._add_part(text, bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._add_part(text, bytea) TO dbinfer_admin;
