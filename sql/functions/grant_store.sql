CREATE OR REPLACE FUNCTION dbinfer.grant_store(store text, role text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_store(store);
  IF role IS DISTINCT FROM 'public' AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = role) THEN
    RAISE undefined_object USING MESSAGE = format('role %L does not exist', role),
      HINT = 'Create the role, or grant to public, which is everybody.';
  END IF;
  -- an older grant may name the oid of a role that was dropped
  DELETE FROM dbinfer_private.store_grant g WHERE g.store = grant_store.store AND g.role = grant_store.role;
  INSERT INTO dbinfer_private.store_grant VALUES (grant_store.store, grant_store.role,
    (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = grant_store.role), dbinfer_private.cluster());
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.grant_store(text, text) IS
  'lets a role read the images of a store (public is everybody), e.g. SELECT dbinfer.grant_store(''photos'', ''analysts'')';
REVOKE ALL ON FUNCTION dbinfer.grant_store(text, text) FROM PUBLIC;
