-- What became of the rows of this version's results: gone from the source; changed after they were scored (the source's row
-- was written by a later transaction than the result); and those of this job that have no result.
SELECT pg_catalog.count(*) FILTER (WHERE source.dbinfer_there IS NULL),
       pg_catalog.count(*) FILTER (WHERE {changed}),
       pg_catalog.count(*) FILTER (WHERE done.{first} IS NULL AND done.scored_at OPERATOR(pg_catalog.>=) {began})
  FROM {into} done LEFT JOIN (SELECT {keys}, {mark} AS dbinfer_mark, 1 AS dbinfer_there FROM {table} source) source ON {done_same}
 WHERE done.model OPERATOR(pg_catalog.=) {model} AND done.version OPERATOR(pg_catalog.=) {version}
