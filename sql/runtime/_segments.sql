-- Names of hosts and folders are for administrators, by session_user: current_user is the owner here, on every segment.
CREATE OR REPLACE FUNCTION dbinfer._segments() RETURNS SETOF text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
/* greenplum: EXECUTE ON ALL SEGMENTS */ AS $$
DECLARE
  found jsonb;
BEGIN
  PERFORM dbinfer_private.load_runtime();
  found := dbinfer_private.status(dbinfer_private.settings());
  IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = 'dbinfer_admin' AND pg_has_role(session_user, r.oid, 'MEMBER')) THEN
    found := found - 'host' - 'venv' - 'cache_dir' - 'cache_bytes' - 'cache_free';
    -- its words name hosts and folders
    IF found->>'problem' IS NOT NULL THEN
      found := found || '{"problem": "An administrator sees what is wrong here: dbinfer doctor"}';
    END IF;
  END IF;
  RETURN NEXT found::text;
END $$;
COMMENT ON FUNCTION dbinfer._segments() IS 'internal: what is behind the view dbinfer.segments';
GRANT EXECUTE ON FUNCTION dbinfer._segments() TO PUBLIC;
