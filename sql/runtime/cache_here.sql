CREATE OR REPLACE FUNCTION dbinfer_private.cache_here(prune boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  digests text[];
BEGIN
  IF prune IS NULL THEN
    RAISE null_value_not_allowed USING MESSAGE = 'prune must be true or false';
  END IF;
  PERFORM dbinfer_private.load_runtime();
  IF prune THEN
    digests := ARRAY(SELECT v.xml_digest || v.bin_digest FROM dbinfer_private.model_version v);
  END IF;
  RETURN dbinfer_private.cache(dbinfer_private.settings_and_databases(), digests);
END $$;
COMMENT ON FUNCTION dbinfer_private.cache_here(boolean) IS 'facts of the host cache of this process as JSON; prunes it first if asked to';
REVOKE ALL ON FUNCTION dbinfer_private.cache_here(boolean) FROM PUBLIC;
