-- The last job that has scored this table with this version and was not over in a moment.
SELECT j.id, j.done, j.seconds
  FROM dbinfer.jobs j
 WHERE j.source OPERATOR(pg_catalog.=) %(table)s AND j.model OPERATOR(pg_catalog.=) %(model)s
   AND j.version OPERATOR(pg_catalog.=) %(version)s AND j.state OPERATOR(pg_catalog.=) 'done'
   AND j.seconds OPERATOR(pg_catalog.>=) %(least)s
 ORDER BY j.id DESC LIMIT 1
