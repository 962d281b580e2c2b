CREATE OR REPLACE FUNCTION dbinfer_private.missing_parts(wanted text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- coalesce: on Greenplum ARRAY of no rows is NULL
  RETURN coalesce(ARRAY(SELECT w FROM unnest(wanted) w EXCEPT SELECT p.digest FROM dbinfer_private.part p), '{}');
END $$;
COMMENT ON FUNCTION dbinfer_private.missing_parts(text[]) IS 'which of these parts the registry does not hold yet';
REVOKE ALL ON FUNCTION dbinfer_private.missing_parts(text[]) FROM PUBLIC;
