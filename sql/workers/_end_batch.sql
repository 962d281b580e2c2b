-- The last statement of the transaction that writes a batch's results. Whoever no longer has the batch raises here, and nothing is written.
CREATE OR REPLACE FUNCTION dbinfer._end_batch(of_job bigint, number bigint, token text, scored bigint, bad bigint, reason text, took double precision, note text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer worker', note);
  own integer := pg_backend_pid();
  at timestamptz := clock_timestamp();
  most bigint := (SELECT s.most_errors FROM dbinfer_private.shared_job s WHERE s.job = of_job);
  j record;
  ran integer;
BEGIN
  SELECT * INTO j FROM dbinfer_private.own_job(of_job, who);
  DELETE FROM dbinfer_private.batch b WHERE b.job = of_job AND b.number = _end_batch.number AND b.token = _end_batch.token;
  IF NOT FOUND THEN
    RAISE object_not_in_prerequisite_state USING MESSAGE = format('another worker has batch %s of job %s now', number, of_job),
      HINT = 'This worker was silent for too long; what it had scored is not written twice.';
  END IF;
  -- not called in a query of the table, which a segment of Greenplum would run, and segments cannot write
  ran := (SELECT v.id FROM dbinfer_private.model_version v WHERE v.model = j.facts->>'model' AND v.version = (j.facts->>'version')::integer
    AND v.tower IS NULL);
  IF ran IS NOT NULL THEN
    PERFORM dbinfer_private.count_scored((j.facts->>'role_oid')::oid, ran, scored + bad, took);
  END IF;
  -- last: workers of a job wait for each other from here to the end of the transaction
  UPDATE dbinfer_private.job o
     SET done = o.done + scored + bad, total = greatest(o.total, o.done + scored + bad), errors = o.errors + bad,
         last_error = coalesce(dbinfer_private.plain(reason, 2000), o.last_error), pid = own, updated_at = at,
         state = CASE WHEN o.errors + bad > most THEN 'failed' ELSE o.state END,
         ended_at = CASE WHEN o.errors + bad > most THEN at ELSE o.ended_at END
   WHERE o.id = of_job;
END $$;
COMMENT ON FUNCTION dbinfer._end_batch(bigint, bigint, text, bigint, bigint, text, double precision, text) IS 'internal: gives a batch back, done; raises where another worker has it';
GRANT EXECUTE ON FUNCTION dbinfer._end_batch(bigint, bigint, text, bigint, bigint, text, double precision, text) TO PUBLIC;
