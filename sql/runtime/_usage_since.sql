CREATE OR REPLACE FUNCTION dbinfer._usage_since() RETURNS timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT b.value::timestamptz FROM dbinfer_private.setting a, dbinfer_private.setting b
           WHERE a.name = 'usage' AND a.value = 'on' AND b.name = 'usage_since');
END $$;
COMMENT ON FUNCTION dbinfer._usage_since() IS 'internal: since when usage is counted; NULL where it is not';
GRANT EXECUTE ON FUNCTION dbinfer._usage_since() TO PUBLIC;
