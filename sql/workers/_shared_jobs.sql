CREATE OR REPLACE FUNCTION dbinfer._shared_jobs(note text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer worker', note);
BEGIN
  RETURN QUERY SELECT json_build_object('job', j.id, 'facts', j.facts, 'cancelled', j.cancelled, 'options', s.options)::text
                 FROM dbinfer_private.job j JOIN dbinfer_private.shared_job s ON s.job = j.id
                WHERE j.role = who AND j.state = 'running'
                  AND j.facts->>'role_oid' = (SELECT r.oid::text FROM pg_roles r WHERE r.rolname = who)
                ORDER BY j.id;
END $$;
COMMENT ON FUNCTION dbinfer._shared_jobs(text) IS 'internal: the jobs of this role on which its workers work';
GRANT EXECUTE ON FUNCTION dbinfer._shared_jobs(text) TO PUBLIC;
