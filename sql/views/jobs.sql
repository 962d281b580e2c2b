CREATE OR REPLACE VIEW dbinfer.jobs AS
SELECT j.id,
       j.role,
       j.facts->>'source' AS source,
       j.facts->>'target' AS target,
       j.facts->>'function' AS function,
       j.facts->>'model' AS model,
       -- a client of 0.1.0 could store anything
       CASE WHEN j.facts->>'version' ~ '^[0-9]{1,9}$' THEN (j.facts->>'version')::integer END AS version,
       -- the client is gone without a word: its session has ended, or, behind a pooler, it has said nothing for a while
       CASE WHEN j.state = 'running' AND (j.updated_at < clock_timestamp() - interval '30 seconds'
                                          OR j.pid <> ALL (ARRAY(SELECT a.pid FROM pg_stat_activity a)))
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
       j.ended_at
  FROM dbinfer_private.job j,
       LATERAL (SELECT extract(epoch FROM coalesce(j.ended_at, j.updated_at) - j.started_at)::double precision AS seconds) x
 WHERE j.role = current_user
       -- a role that was made again under an old name is another one
       AND coalesce(j.facts->>'role_oid' = (SELECT r.oid::text FROM pg_catalog.pg_roles r WHERE r.rolname = current_user), true)
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = 'dbinfer_admin' AND pg_has_role(r.oid, 'USAGE'));
COMMENT ON VIEW dbinfer.jobs IS 'jobs of dbinfer score, running and past: your own, for administrators all; done of total rows, rows a second, state, last error';
GRANT SELECT ON dbinfer.jobs TO PUBLIC;
