-- Does nothing where it is loaded; nor on a segment that is finishing (see finishing.sql), where PERFORM starts nothing.
-- PARALLEL RESTRICTED, like all functions that keep something in GD: a plan of its own must not carry `SELECT load_runtime()` into another
-- process. STABLE, because a VOLATILE function cannot read in a parallel plan under CREATE TABLE AS ("cannot start commands").
CREATE OR REPLACE FUNCTION dbinfer_private.load_runtime() RETURNS void
LANGUAGE plpgsql /* greenplum: VOLATILE */ /* postgresql: STABLE */ PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted text;
  here text;
  m record;
BEGIN
  SELECT s.value INTO wanted FROM dbinfer_private.setting s WHERE s.name = 'runtime_digest';
  IF dbinfer_private.need_runtime(wanted) THEN
    PERFORM dbinfer_private.require_registry();
    -- a variable, because Greenplum would ask the Python of a segment
    here := dbinfer_private.python();
    SELECT s.value AS digest, c.code INTO m FROM dbinfer_private.setting s JOIN dbinfer_private.runtime_code c
        ON c.digest = s.value AND c.python = here WHERE s.name = 'runtime_digest';
    IF FOUND THEN
      PERFORM dbinfer_private.start_code(m.digest, m.code);
      RETURN;
    END IF;
    -- sources and digest in one query: where this is VOLATILE, an upgrade may commit between two
    FOR m IN SELECT r.name, r.source, s.value AS digest FROM dbinfer_private.runtime_module r
             JOIN dbinfer_private.setting s ON s.name = 'runtime_digest' LOOP
      PERFORM dbinfer_private.feed_module(m.name, m.source);
      wanted := m.digest;
    END LOOP;
    PERFORM dbinfer_private.start_runtime(wanted);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.load_runtime() IS 'loads the Python runtime from the registry into this backend';
REVOKE ALL ON FUNCTION dbinfer_private.load_runtime() FROM PUBLIC;
