-- Who has used a version (NULL: any of the model's) within so many days, the last one first.
SELECT u.version, u.role, u.rows, u.last_used::pg_catalog.date::pg_catalog.text FROM dbinfer.usage u
 WHERE u.model OPERATOR(pg_catalog.=) %(model)s
   AND (%(version)s::pg_catalog.int4 IS NULL OR u.version OPERATOR(pg_catalog.=) %(version)s)
   AND u.last_used OPERATOR(pg_catalog.>) (pg_catalog.now() OPERATOR(pg_catalog.-) pg_catalog.make_interval(days := %(days)s))
 ORDER BY u.last_used DESC
