CREATE OR REPLACE FUNCTION dbinfer._journal(of_study text, first bigint) RETURNS SETOF jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT j.entry FROM dbinfer_private.tuning_journal j
    WHERE j.study = of_study AND j.number >= first ORDER BY j.number;
END $$;
COMMENT ON FUNCTION dbinfer._journal(text, bigint) IS 'internal: the entries that workers of dbinfer tune share, from a number on';
REVOKE ALL ON FUNCTION dbinfer._journal(text, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._journal(text, bigint) TO dbinfer_admin;
