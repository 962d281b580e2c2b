-- The jobs that wrote these results, as far as the reader may see them, the last ones first.
SELECT j.id, j.role::pg_catalog.text, j.state, j.done, j.errors, j.rate, j.seconds, j.started_at
  FROM dbinfer.jobs j
 WHERE j.target OPERATOR(pg_catalog.=) {target} AND ({model} IS NULL OR j.model OPERATOR(pg_catalog.=) {model} AND j.version OPERATOR(pg_catalog.=) {number})
 ORDER BY j.started_at DESC
 LIMIT {limit}
