-- Compiled in a backend, so by the Python that will load it. One row: code of another Python is of no use to this server.
CREATE OR REPLACE FUNCTION dbinfer_private.keep_code() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted text := (SELECT s.value FROM dbinfer_private.setting s WHERE s.name = 'runtime_digest');
  sources text := (SELECT json_object_agg(m.name, m.source) FROM dbinfer_private.runtime_module m);
  -- variables, because Greenplum would call functions within an INSERT on a segment
  here text := dbinfer_private.python();
  code bytea := dbinfer_private.pack(sources, wanted);
BEGIN
  DELETE FROM dbinfer_private.runtime_code;
  INSERT INTO dbinfer_private.runtime_code VALUES (here, wanted, code);
END $$;
COMMENT ON FUNCTION dbinfer_private.keep_code() IS 'compiles the runtime and keeps the code in the registry';
REVOKE ALL ON FUNCTION dbinfer_private.keep_code() FROM PUBLIC;
