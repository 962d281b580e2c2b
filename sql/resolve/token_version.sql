CREATE OR REPLACE FUNCTION dbinfer_private.token_version(token text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- nine digits always fit an integer
  IF token !~ '^dbinfer:[0-9]{1,9}:[0-9a-f]{16}$' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'invalid model token',
      HINT = 'Call dbinfer.predict, classify, segment, detect or embed.';
  END IF;
  RETURN split_part(token, ':', 2)::integer;
END $$;
COMMENT ON FUNCTION dbinfer_private.token_version(text) IS 'the version id inside a token';
REVOKE ALL ON FUNCTION dbinfer_private.token_version(text) FROM PUBLIC;
