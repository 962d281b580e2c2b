-- Workers run SQL that the job's role wrote (its condition, views, types), so nobody works for another role.
CREATE OR REPLACE FUNCTION dbinfer_private.own_job(number bigint, who text) RETURNS SETOF dbinfer_private.job
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT j.* FROM dbinfer_private.job j JOIN dbinfer_private.shared_job s ON s.job = j.id
                WHERE j.id = number AND j.role = who AND j.facts->>'role_oid' = (SELECT r.oid::text FROM pg_roles r WHERE r.rolname = who);
  IF NOT FOUND THEN
    RAISE undefined_object USING MESSAGE = format('there is no job %s of yours that workers share', coalesce(number::text, 'NULL')),
      HINT = 'To list the jobs: dbinfer jobs';
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.own_job(bigint, text) IS 'the row of a job that workers share, if it is this role''s; else raises';
REVOKE ALL ON FUNCTION dbinfer_private.own_job(bigint, text) FROM PUBLIC;
