CREATE OR REPLACE FUNCTION dbinfer.drop_store(store text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  PERFORM dbinfer_private.require_store(store);
  DELETE FROM dbinfer_private.store_grant g WHERE g.store = drop_store.store;
  DELETE FROM dbinfer_private.store s WHERE s.name = drop_store.store;
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.drop_store(text) IS
  'forgets a store and who may read it; the images stay where they are, e.g. SELECT dbinfer.drop_store(''photos'')';
REVOKE ALL ON FUNCTION dbinfer.drop_store(text) FROM PUBLIC;
