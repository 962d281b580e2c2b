-- A plan that loses rows would otherwise give a shorter answer without a word.
CREATE OR REPLACE FUNCTION dbinfer._check_rest(function text, came bigint, handed bigint) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
  IF came OPERATOR(pg_catalog.<>) handed THEN
    RAISE internal_error USING MESSAGE = pg_catalog.format('dbinfer: %s rows did not come back from their batches', handed OPERATOR(pg_catalog.-) came),
      HINT = pg_catalog.format('This is a defect of dbinfer. SELECT id, dbinfer.%s(img) gives the same row by row.', function);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer._check_rest(text, bigint, bigint) IS 'internal: raises where rows of a scan are missing';
GRANT EXECUTE ON FUNCTION dbinfer._check_rest(text, bigint, bigint) TO PUBLIC;
