-- What a worker is to do next. `state`: batch (it holds this one now), cut (find the end of the next batch above `low`, see _cut_batch),
-- wait (others still score, or a job that watches is to look later, unless `look` says that there is something), or how the job has ended.
CREATE OR REPLACE FUNCTION dbinfer._claim_batch(of_job bigint, token text, seconds double precision, look boolean, note text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer worker', note);
  own integer := pg_backend_pid();
  at timestamptz := clock_timestamp();
  -- a claim lasts a day at most (see check_claim): later moments are of before the clock was set back
  latest timestamptz := at + interval '1 day';
  pause interval;
  j record;
  s record;
  b record;
BEGIN
  PERFORM dbinfer_private.check_claim(token, seconds);
  SELECT * INTO j FROM dbinfer_private.own_job(of_job, who);
  IF j.state = 'running' AND j.cancelled THEN
    -- others write what they have; what nobody holds any more stays open
    DELETE FROM dbinfer_private.batch c WHERE c.job = of_job AND c.until NOT BETWEEN at AND latest;
    IF EXISTS (SELECT 1 FROM dbinfer_private.batch c WHERE c.job = of_job) THEN
      RETURN '{"state": "wait"}';
    END IF;
    UPDATE dbinfer_private.job SET state = 'cancelled', pid = own, updated_at = at, ended_at = at WHERE id = of_job;
    RETURN '{"state": "cancelled"}';
  ELSIF j.state <> 'running' THEN
    RETURN json_build_object('state', j.state)::text;
  END IF;
  -- of a worker that has fallen silent. Checked again by UPDATE, which waits for one that writes: it may have ended the batch
  SELECT * INTO b FROM dbinfer_private.batch c WHERE c.job = of_job AND c.until NOT BETWEEN at AND latest ORDER BY c.number LIMIT 1 /* postgresql: FOR UPDATE SKIP LOCKED */;
  IF FOUND THEN
    UPDATE dbinfer_private.batch c SET token = _claim_batch.token, until = at + seconds * interval '1 second', tries = c.tries + 1
     WHERE c.job = of_job AND c.number = b.number AND c.token = b.token AND c.until NOT BETWEEN at AND latest;
    IF FOUND THEN
      RETURN json_build_object('state', 'batch', 'number', b.number, 'low', b.low, 'high', b.high, 'rows', b.rows, 'retry', b.retry, 'tries', b.tries + 1)::text;
    END IF;
    RETURN '{"state": "again"}';
  END IF;
  SELECT * INTO s FROM dbinfer_private.shared_job h WHERE h.job = of_job;
  pause := coalesce((s.options->>'watch')::double precision, 0) * interval '1 second';
  -- a job that waits for rows is no lost one
  IF j.updated_at < at - interval '1 second' THEN
    UPDATE dbinfer_private.job SET pid = own, updated_at = at WHERE id = of_job;
  END IF;
  RETURN json_build_object('state', CASE WHEN s.look_at BETWEEN at AND latest + pause AND NOT look THEN 'wait' ELSE 'cut' END, 'pass', s.pass, 'low', s.low, 'done', j.done, 'total', j.total)::text;
END $$;
COMMENT ON FUNCTION dbinfer._claim_batch(bigint, text, double precision, boolean, text) IS 'internal: gives a worker a batch that another has lost, or says where the next one begins';
GRANT EXECUTE ON FUNCTION dbinfer._claim_batch(bigint, text, double precision, boolean, text) TO PUBLIC;
