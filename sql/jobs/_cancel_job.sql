CREATE OR REPLACE FUNCTION dbinfer._cancel_job(job bigint, note text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who name := dbinfer_private.asker('dbinfer score', note);
  found_state text;
BEGIN
  SELECT v.state INTO found_state FROM dbinfer.jobs v WHERE v.id = job
     AND (v.role = who AND coalesce((SELECT j.facts->>'role_oid' FROM dbinfer_private.job j WHERE j.id = job)
                                    = (SELECT r.oid::text FROM pg_roles r WHERE r.rolname = who), true)
          OR EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolname = 'dbinfer_admin' AND pg_has_role(who, r.oid, 'USAGE')));
  IF found_state IS NULL THEN
    RAISE undefined_object USING MESSAGE = format('there is no job %s of yours', coalesce(job::text, 'NULL')),
      HINT = 'To list the jobs: dbinfer jobs';
  ELSIF found_state <> 'running' THEN
    RAISE object_not_in_prerequisite_state USING MESSAGE = format('job %s is not running: it is %s', job, found_state);
  END IF;
  UPDATE dbinfer_private.job j SET cancelled = true WHERE j.id = job;
END $$;
COMMENT ON FUNCTION dbinfer._cancel_job(bigint, text) IS 'internal: marks a job to be ended: the asker''s own; administrators'' any';
GRANT EXECUTE ON FUNCTION dbinfer._cancel_job(bigint, text) TO PUBLIC;
