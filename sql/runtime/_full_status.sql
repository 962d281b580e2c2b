CREATE OR REPLACE FUNCTION dbinfer._full_status() RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.load_runtime();
  RETURN dbinfer_private.status(dbinfer_private.settings());
END $$;
COMMENT ON FUNCTION dbinfer._full_status() IS 'internal: facts of this process, host and folders included; roles that may execute it also see them in errors';
REVOKE ALL ON FUNCTION dbinfer._full_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._full_status() TO dbinfer_admin;
