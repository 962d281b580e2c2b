CREATE OR REPLACE FUNCTION dbinfer._missing_parts(wanted text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN dbinfer_private.missing_parts(wanted);
END $$;
COMMENT ON FUNCTION dbinfer._missing_parts(text[]) IS 'internal: which of these parts the registry does not hold yet';
REVOKE ALL ON FUNCTION dbinfer._missing_parts(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._missing_parts(text[]) TO dbinfer_admin;
