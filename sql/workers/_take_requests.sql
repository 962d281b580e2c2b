-- A role's own requests; administrators' workers take everybody's.
CREATE OR REPLACE FUNCTION dbinfer._take_requests(most integer, claim text, seconds double precision, note text)
RETURNS TABLE (id bigint, version integer, model text, function text, img bytea)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.asker_oid('dbinfer worker', note);
  everybody boolean := has_function_privilege(caller, 'dbinfer._add_part(text, bytea)', 'EXECUTE');
  at timestamptz := clock_timestamp();
  -- as in _claim_batch
  latest timestamptz := at + interval '1 day';
  ids bigint[];
BEGIN
  PERFORM dbinfer_private.check_claim(claim, seconds);
  ids := ARRAY(SELECT r.id FROM dbinfer_private.request r WHERE r.until NOT BETWEEN at AND latest AND (everybody OR r.role_oid = caller::bigint)
                ORDER BY r.id LIMIT most /* postgresql: FOR UPDATE SKIP LOCKED */);
  IF ids = '{}' THEN
    IF random() < 0.001 THEN
      DELETE FROM dbinfer_private.answer a WHERE a.answered_at < at - interval '1 hour';
      DELETE FROM dbinfer_private.request r WHERE r.asked_at < at - interval '1 day';
    END IF;
    RETURN;
  END IF;
  -- checked again, for servers on which nothing was locked
  UPDATE dbinfer_private.request r SET token = claim, until = at + seconds * interval '1 second' WHERE r.id = ANY (ids) AND r.until NOT BETWEEN at AND latest;
  RETURN QUERY SELECT r.id, r.version_id, v.model || '@' || v.version, r.function, r.img
                 FROM dbinfer_private.request r LEFT JOIN dbinfer_private.model_version v ON v.id = r.version_id
                WHERE r.id = ANY (ids) AND r.token = claim ORDER BY r.id;
END $$;
COMMENT ON FUNCTION dbinfer._take_requests(integer, text, double precision, text) IS 'internal: gives a worker images that wait';
GRANT EXECUTE ON FUNCTION dbinfer._take_requests(integer, text, double precision, text) TO PUBLIC;
