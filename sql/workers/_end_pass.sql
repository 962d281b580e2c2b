-- No open row is left above `above`. Rows may have been added or left below, so the table is gone through again until nothing is found.
-- Returns again, wait, or done.
CREATE OR REPLACE FUNCTION dbinfer._end_pass(of_job bigint, in_pass integer, above text[], looked double precision, note text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer worker', note);
  own integer := pg_backend_pid();
  at timestamptz := clock_timestamp();
  s record;
  pause double precision;
BEGIN
  PERFORM dbinfer_private.own_job(of_job, who);
  -- whoever is first ends the pass; the others find another pass then
  SELECT * INTO s FROM dbinfer_private.shared_job h
   WHERE h.job = of_job AND h.pass = in_pass AND (h.low = above OR h.low IS NULL AND above IS NULL) /* postgresql: FOR UPDATE */;
  IF NOT FOUND THEN
    RETURN 'again';
  ELSIF EXISTS (SELECT 1 FROM dbinfer_private.batch b WHERE b.job = of_job) THEN
    RETURN 'wait';
  END IF;
  -- a pass in which nothing was found is the last one, of ten at most, unless the job watches
  pause := (s.options->>'watch')::double precision;
  IF (s.found AND in_pass < 10) OR pause IS NOT NULL THEN
    UPDATE dbinfer_private.shared_job h SET pass = in_pass + 1, low = NULL, found = false,
           -- looking takes a twentieth of the time at most
           look_at = at + CASE WHEN s.found THEN 0 ELSE greatest(pause, 20 * looked) END * interval '1 second'
     WHERE h.job = of_job AND h.pass = in_pass AND (h.low = above OR h.low IS NULL AND above IS NULL);
    RETURN CASE WHEN s.found THEN 'again' ELSE 'wait' END;
  END IF;
  UPDATE dbinfer_private.job j SET state = 'done', pid = own, updated_at = at, ended_at = at WHERE j.id = of_job AND j.state = 'running';
  RETURN 'done';
END $$;
COMMENT ON FUNCTION dbinfer._end_pass(bigint, integer, text[], double precision, text) IS 'internal: a worker has found no more open rows: another pass, or the end of the job';
GRANT EXECUTE ON FUNCTION dbinfer._end_pass(bigint, integer, text[], double precision, text) TO PUBLIC;
