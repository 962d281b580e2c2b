CREATE OR REPLACE FUNCTION dbinfer._request(img bytea, model text, function text, note text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.asker_oid('dbinfer request', note);
  wanted integer := dbinfer_private.find_version(model);
  number bigint;
  at timestamptz := clock_timestamp();
BEGIN
  IF img IS NULL THEN
    RAISE null_value_not_allowed USING MESSAGE = 'the image is NULL', HINT = 'Call dbinfer.request, which returns NULL for it.';
  END IF;
  PERFORM dbinfer_private.check_grant(caller, (SELECT v.model FROM dbinfer_private.model_version v WHERE v.id = wanted));
  IF (SELECT count(*) FROM dbinfer_private.request r WHERE r.role_oid = caller::bigint) >= 1000 THEN
    RAISE program_limit_exceeded USING MESSAGE = '1000 images of yours wait for a worker already',
      HINT = 'See that one runs: dbinfer worker. Score whole tables with dbinfer score.';
  END IF;
  number := nextval('dbinfer_private.request_id');
  INSERT INTO dbinfer_private.request VALUES (number, pg_get_userbyid(caller), caller::bigint, wanted, coalesce(left(function, 63), ''), img, at, NULL, '-infinity');
  PERFORM pg_notify('dbinfer_request', '');
  RETURN number;
END $$;
COMMENT ON FUNCTION dbinfer._request(bytea, text, text, text) IS 'internal: lets an image wait for a worker; call dbinfer.request';
GRANT EXECUTE ON FUNCTION dbinfer._request(bytea, text, text, text) TO PUBLIC;
