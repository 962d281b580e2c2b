CREATE OR REPLACE FUNCTION dbinfer_private.has_code() RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here text := dbinfer_private.python();
BEGIN
  RETURN EXISTS (SELECT FROM dbinfer_private.runtime_code c JOIN dbinfer_private.setting s ON s.value = c.digest
                  WHERE s.name = 'runtime_digest' AND c.python = here);
END $$;
COMMENT ON FUNCTION dbinfer_private.has_code() IS 'whether the registry has the runtime compiled by the Python of this process';
REVOKE ALL ON FUNCTION dbinfer_private.has_code() FROM PUBLIC;
