CREATE OR REPLACE VIEW dbinfer.trials AS
WITH entry AS (
  SELECT j.study, j.number, (j.entry->>'op_code')::integer AS op, (j.entry->>'trial_id')::bigint AS trial, j.entry
    FROM dbinfer_private.tuning_journal j
   WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = 'dbinfer_admin' AND pg_has_role(r.oid, 'USAGE'))
), begun AS (
  -- 4 creates a trial; trials are numbered in that order
  SELECT e.study, row_number() OVER (PARTITION BY e.study ORDER BY e.number) - 1 AS trial, e.entry
    FROM entry e WHERE e.op = 4
), told AS (
  -- 5 sets a parameter, 6 state and values, 7 the score of an epoch, 8 an attribute
  SELECT e.study, e.trial,
         json_object_agg(e.entry->>'param_name',
           -- of a parameter with choices, Optuna stores which one
           CASE WHEN (e.entry->>'distribution')::jsonb->>'name' = 'CategoricalDistribution'
                THEN (e.entry->>'distribution')::jsonb->'attributes'->'choices'->((e.entry->>'param_value_internal')::numeric::integer)
                ELSE e.entry->'param_value_internal' END) FILTER (WHERE e.op = 5)::jsonb AS params,
         json_object_agg(e.entry->>'step', e.entry->'intermediate_value') FILTER (WHERE e.op = 7)::jsonb AS scores,
         (array_agg(e.entry ORDER BY e.number DESC) FILTER (WHERE e.op = 6))[1] AS last,
         max(e.entry->'user_attr'->>'worker') FILTER (WHERE e.op = 8) AS worker
    FROM entry e WHERE e.op BETWEEN 5 AND 8 GROUP BY e.study, e.trial
)
SELECT b.study,
       b.trial,
       -- Optuna's states in the order of their numbers, from 0
       (ARRAY['running', 'complete', 'pruned', 'failed', 'waiting'])[coalesce(t.last->>'state', b.entry->>'state', '0')::integer + 1] AS state,
       (t.last->'values'->>0)::double precision AS value,
       coalesce(t.params, '{}') AS params,
       coalesce(t.scores, '{}') AS scores,
       t.worker,
       (b.entry->>'datetime_start')::timestamptz AS started_at,
       (t.last->>'datetime_complete')::timestamptz AS ended_at
  FROM begun b
  LEFT JOIN told t ON t.study = b.study AND t.trial = b.trial;
COMMENT ON VIEW dbinfer.trials IS
  'one row per trial of dbinfer tune; administrators, who alone can tune, see them, e.g. SELECT study, trial, state, value, params FROM dbinfer.trials ORDER BY value DESC';
COMMENT ON COLUMN dbinfer.trials.study IS 'name of the study';
COMMENT ON COLUMN dbinfer.trials.trial IS 'number of the trial in its study, from 0';
COMMENT ON COLUMN dbinfer.trials.state IS 'running, complete, pruned, failed or waiting';
COMMENT ON COLUMN dbinfer.trials.value IS 'its final score';
COMMENT ON COLUMN dbinfer.trials.params IS 'the values that it tried';
COMMENT ON COLUMN dbinfer.trials.scores IS 'its score after each epoch';
COMMENT ON COLUMN dbinfer.trials.worker IS 'worker that ran it';
COMMENT ON COLUMN dbinfer.trials.started_at IS 'when it started';
COMMENT ON COLUMN dbinfer.trials.ended_at IS 'when it ended';
GRANT SELECT ON dbinfer.trials TO PUBLIC;
