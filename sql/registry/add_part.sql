CREATE OR REPLACE FUNCTION dbinfer_private.add_part(part_digest text, content bytea) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO dbinfer_private.part VALUES (part_digest, content);
END $$;
COMMENT ON FUNCTION dbinfer_private.add_part(text, bytea) IS 'stores one part of a model file';
REVOKE ALL ON FUNCTION dbinfer_private.add_part(text, bytea) FROM PUBLIC;
