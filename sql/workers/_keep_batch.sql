CREATE OR REPLACE FUNCTION dbinfer._keep_batch(of_job bigint, number bigint, token text, seconds double precision, note text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer worker', note);
  own integer := pg_backend_pid();
  at timestamptz := clock_timestamp();
BEGIN
  PERFORM dbinfer_private.check_claim(token, seconds);
  PERFORM dbinfer_private.own_job(of_job, who);
  UPDATE dbinfer_private.job j SET pid = own, updated_at = at WHERE j.id = of_job;
  UPDATE dbinfer_private.batch b SET until = at + seconds * interval '1 second'
   WHERE b.job = of_job AND b.number = _keep_batch.number AND b.token = _keep_batch.token;
  RETURN FOUND;
END $$;
COMMENT ON FUNCTION dbinfer._keep_batch(bigint, bigint, text, double precision, text) IS 'internal: a worker goes on with its batch; false where another has it now';
GRANT EXECUTE ON FUNCTION dbinfer._keep_batch(bigint, bigint, text, double precision, text) TO PUBLIC;
