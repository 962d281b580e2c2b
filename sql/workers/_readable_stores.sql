-- A worker fetches by itself, so it must know where: what users of a server that fetches never see.
CREATE OR REPLACE FUNCTION dbinfer._readable_stores(note text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.asker_oid('dbinfer worker', note);
  found text := coalesce(dbinfer_private.with_stores(caller, dbinfer_private.settings_of(caller)), '{}');
BEGIN
  /* tables-only: RETURN found; */
  IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.oid = caller AND r.rolsuper) THEN
    RAISE insufficient_privilege USING MESSAGE = 'permission denied for the addresses of stores',
      DETAIL = 'This server fetches images by itself, and shows where they lie to superusers alone.',
      HINT = 'Run dbinfer score, which needs no worker here.';
  END IF;
  RETURN found;
END $$;
COMMENT ON FUNCTION dbinfer._readable_stores(text) IS 'internal: the settings with the stores that a worker''s role may read';
GRANT EXECUTE ON FUNCTION dbinfer._readable_stores(text) TO PUBLIC;
