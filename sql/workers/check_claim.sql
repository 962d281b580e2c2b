CREATE OR REPLACE FUNCTION dbinfer_private.check_claim(token text, seconds double precision) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (token ~ '^[0-9a-f]{32}$' AND seconds BETWEEN 0.01 AND 86400) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a claim needs a token of 32 digits and at most a day', HINT = 'Run: dbinfer worker';
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.check_claim(text, double precision) IS 'raises unless a worker may claim under this token for so many seconds';
REVOKE ALL ON FUNCTION dbinfer_private.check_claim(text, double precision) FROM PUBLIC;
