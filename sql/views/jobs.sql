CREATE OR REPLACE VIEW dbinfer.jobs AS
SELECT j.id,
       j.role,
       j.facts->>'source' AS source,
       j.facts->>'target' AS target,
       j.facts->>'function' AS function,
       j.facts->>'model' AS model,
       -- a client of 0.1.0 could store anything
       CASE WHEN j.facts->>'version' ~ '^[0-9]{1,9}$' THEN (j.facts->>'version')::integer END AS version,
       -- the client is gone without a word: its session has ended, or, behind a pooler, it has said nothing for a while; of workers
       -- that share a job, any may go
       CASE WHEN j.state = 'running' AND (j.updated_at < clock_timestamp() - interval '30 seconds'
                                          OR (j.pid <> ALL (ARRAY(SELECT a.pid FROM pg_stat_activity a))
                                              AND NOT EXISTS (SELECT 1 FROM dbinfer_private.shared_job s WHERE s.job = j.id)))
            THEN 'lost' ELSE j.state END AS state,
       j.done,
       j.total,
       j.errors,
       j.done / greatest(x.seconds, 0.001) AS rate,
       x.seconds,
       CASE WHEN j.facts->>'connections' ~ '^[0-9]{1,9}$' THEN (j.facts->>'connections')::integer END AS connections,
       j.last_error,
       j.started_at,
       j.updated_at,
       j.ended_at,
       coalesce(j.reused, 0) AS reused
  FROM dbinfer_private.job j,
       LATERAL (SELECT extract(epoch FROM coalesce(j.ended_at, j.updated_at) - j.started_at)::double precision AS seconds) x
 WHERE j.role = current_user
       -- a role that was made again under an old name is another one
       AND coalesce(j.facts->>'role_oid' = (SELECT r.oid::text FROM pg_catalog.pg_roles r WHERE r.rolname = current_user), true)
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname IN ('dbinfer_admin', 'pg_monitor') AND pg_has_role(r.oid, 'USAGE'));
COMMENT ON VIEW dbinfer.jobs IS
  'jobs of dbinfer score, running and past: your own; administrators and members of pg_monitor see all, e.g. SELECT id, state, done, total, rate FROM dbinfer.jobs ORDER BY id DESC';
COMMENT ON COLUMN dbinfer.jobs.id IS 'number of the job';
COMMENT ON COLUMN dbinfer.jobs.role IS 'who started it';
COMMENT ON COLUMN dbinfer.jobs.source IS 'table of images';
COMMENT ON COLUMN dbinfer.jobs.target IS 'table of results';
COMMENT ON COLUMN dbinfer.jobs.function IS 'function that scores the rows';
COMMENT ON COLUMN dbinfer.jobs.model IS 'name of the model';
COMMENT ON COLUMN dbinfer.jobs.version IS 'version of the model, fixed when the job starts';
COMMENT ON COLUMN dbinfer.jobs.state IS 'running, done, cancelled, failed, or lost when its client is gone without a word';
COMMENT ON COLUMN dbinfer.jobs.done IS 'rows done so far, bad ones included';
COMMENT ON COLUMN dbinfer.jobs.total IS 'rows to score';
COMMENT ON COLUMN dbinfer.jobs.errors IS 'rows whose image could not be scored';
COMMENT ON COLUMN dbinfer.jobs.rate IS 'rows per second';
COMMENT ON COLUMN dbinfer.jobs.seconds IS 'how long it has been running, or ran';
COMMENT ON COLUMN dbinfer.jobs.connections IS 'sessions that score for it';
COMMENT ON COLUMN dbinfer.jobs.last_error IS 'reason of the last bad image or of its end';
COMMENT ON COLUMN dbinfer.jobs.started_at IS 'when it started';
COMMENT ON COLUMN dbinfer.jobs.updated_at IS 'when it last told how far it is';
COMMENT ON COLUMN dbinfer.jobs.ended_at IS 'when it ended';
COMMENT ON COLUMN dbinfer.jobs.reused IS 'rows of which the same picture had an answer already; see dbinfer score --reuse';
GRANT SELECT ON dbinfer.jobs TO PUBLIC;
