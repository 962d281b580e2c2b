-- The four steps of deploying, for roles without USAGE on dbinfer_private: _lock_registry, _missing_parts, _add_part, _add_version.
CREATE OR REPLACE FUNCTION dbinfer._lock_registry() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
END $$;
COMMENT ON FUNCTION dbinfer._lock_registry() IS 'internal: lets one session at a time deploy; scoring goes on';
REVOKE ALL ON FUNCTION dbinfer._lock_registry() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._lock_registry() TO dbinfer_admin;
