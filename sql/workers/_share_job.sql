-- What a job's workers need besides its facts: its options, written and read by its own role alone.
CREATE OR REPLACE FUNCTION dbinfer._share_job(of_job bigint, options jsonb, most_errors bigint, rows_in_all bigint, note text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer worker', note);
  at timestamptz := clock_timestamp();
BEGIN
  INSERT INTO dbinfer_private.shared_job VALUES (of_job, options, most_errors, 0, false, NULL, at);
  -- raises unless the job is this role's, and with that takes back what was inserted
  PERFORM dbinfer_private.own_job(of_job, who);
  UPDATE dbinfer_private.job j SET total = rows_in_all WHERE j.id = of_job;
END $$;
COMMENT ON FUNCTION dbinfer._share_job(bigint, jsonb, bigint, bigint, text) IS 'internal: lets workers claim the batches of a job';
GRANT EXECUTE ON FUNCTION dbinfer._share_job(bigint, jsonb, bigint, bigint, text) TO PUBLIC;
