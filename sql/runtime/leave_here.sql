CREATE OR REPLACE FUNCTION dbinfer_private.leave_here() RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.load_runtime();
  RETURN dbinfer_private.leave(dbinfer_private.settings_and_databases());
END $$;
COMMENT ON FUNCTION dbinfer_private.leave_here() IS 'removes what only this database has put on the host of this process, for uninstall';
REVOKE ALL ON FUNCTION dbinfer_private.leave_here() FROM PUBLIC;
