CREATE OR REPLACE FUNCTION dbinfer_private.lock_registry() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  LOCK TABLE dbinfer_private.model IN SHARE ROW EXCLUSIVE MODE;
END $$;
COMMENT ON FUNCTION dbinfer_private.lock_registry() IS 'lets one session at a time change the registry; scoring goes on';
REVOKE ALL ON FUNCTION dbinfer_private.lock_registry() FROM PUBLIC;
