CREATE OR REPLACE FUNCTION dbinfer.revoke_store(store text, role text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_store(store);
  DELETE FROM dbinfer_private.store_grant g WHERE g.store = revoke_store.store AND g.role = revoke_store.role;
  IF NOT FOUND THEN
    RAISE undefined_object USING MESSAGE = format('store %L was not granted to %L', store, role),
      HINT = 'To list grants: SELECT name, granted_to FROM dbinfer.stores';
  END IF;
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.revoke_store(text, text) IS
  'takes the right to read a store from a role, from the next statement on, e.g. SELECT dbinfer.revoke_store(''photos'', ''public'')';
REVOKE ALL ON FUNCTION dbinfer.revoke_store(text, text) FROM PUBLIC;
