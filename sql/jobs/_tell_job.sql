CREATE OR REPLACE FUNCTION dbinfer._tell_job(job bigint, done bigint, total bigint, errors bigint, last_error text, state text, note text, reused bigint DEFAULT 0)
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer score', note);
  wanted boolean;
  -- behind a pooler it changes from one transaction to the next; not in the UPDATE, which Greenplum runs in other processes
  own integer := pg_backend_pid();
  at timestamptz := clock_timestamp();
BEGIN
  UPDATE dbinfer_private.job j
     SET done = coalesce(greatest(_tell_job.done, 0), 0), total = CASE WHEN _tell_job.total >= 0 THEN _tell_job.total END, errors = coalesce(greatest(_tell_job.errors, 0), 0),
         reused = coalesce(greatest(_tell_job.reused, 0), 0),
         last_error = dbinfer_private.plain(_tell_job.last_error, 2000),
         state = _tell_job.state, pid = own, updated_at = at,
         ended_at = CASE WHEN _tell_job.state <> 'running' THEN at END
   WHERE j.id = job AND j.role = who
     AND coalesce(j.facts->>'role_oid' = (SELECT r.oid::text FROM pg_roles r WHERE r.rolname = who), true) AND j.state = 'running' AND _tell_job.state IN ('running', 'done', 'failed', 'cancelled')
  RETURNING j.cancelled INTO wanted;
  RETURN wanted;
END $$;
COMMENT ON FUNCTION dbinfer._tell_job(bigint, bigint, bigint, bigint, text, text, text, bigint) IS 'internal: notes how far a job of the caller is; whether it shall end';
GRANT EXECUTE ON FUNCTION dbinfer._tell_job(bigint, bigint, bigint, bigint, text, text, text, bigint) TO PUBLIC;
