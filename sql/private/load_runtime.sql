-- Makes the runtime of the registry the one that this backend runs; does nothing where it is loaded.
CREATE OR REPLACE FUNCTION dbinfer_private.load_runtime() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
  wanted text;
  m record;
BEGIN
  SELECT s.value INTO wanted FROM dbinfer_private.setting s WHERE s.name = 'runtime_digest';
  IF dbinfer_private.need_runtime(wanted) THEN
    FOR m IN SELECT r.name, r.source FROM dbinfer_private.runtime_module r LOOP
      PERFORM dbinfer_private.feed_module(m.name, m.source);
    END LOOP;
    PERFORM dbinfer_private.start_runtime(wanted);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.load_runtime() IS 'loads the Python runtime from the registry into this backend';
REVOKE ALL ON FUNCTION dbinfer_private.load_runtime() FROM PUBLIC;
ALTER FUNCTION dbinfer_private.load_runtime() OWNER TO dbinfer_owner;
