-- NULL where another worker has cut there meanwhile.
CREATE OR REPLACE FUNCTION dbinfer._cut_batch(of_job bigint, in_pass integer, above text[], upto text[], size bigint, token text, seconds double precision, note text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer worker', note);
  own integer := pg_backend_pid();
  at timestamptz := clock_timestamp();
  made bigint := nextval('dbinfer_private.batch_number');
BEGIN
  PERFORM dbinfer_private.check_claim(token, seconds);
  PERFORM dbinfer_private.own_job(of_job, who);
  -- not IS NOT DISTINCT FROM, for which ORCA loses the collation of arrays of text
  UPDATE dbinfer_private.shared_job s SET low = upto, found = true
   WHERE s.job = of_job AND s.pass = in_pass AND (s.low = above OR s.low IS NULL AND above IS NULL);
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  INSERT INTO dbinfer_private.batch VALUES (of_job, made, above, upto, size, in_pass = 0, token, at + seconds * interval '1 second', 1);
  UPDATE dbinfer_private.job j SET pid = own, updated_at = at WHERE j.id = of_job;
  RETURN made;
END $$;
COMMENT ON FUNCTION dbinfer._cut_batch(bigint, integer, text[], text[], bigint, text, double precision, text) IS 'internal: makes the next batch of a job and gives it to the worker that has found its end';
GRANT EXECUTE ON FUNCTION dbinfer._cut_batch(bigint, integer, text[], text[], bigint, text, double precision, text) TO PUBLIC;
