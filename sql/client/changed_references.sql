-- Files that have changed since; a store of files has no etags, but sizes and times.
SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(l.bytes), 0)::pg_catalog.int8
  FROM {table} t JOIN {listed} l ON t.{path} OPERATOR(pg_catalog.=) l.path
 WHERE NOT coalesce(CASE WHEN l.etag IS NOT NULL THEN t.etag OPERATOR(pg_catalog.=) l.etag
                         ELSE t.bytes OPERATOR(pg_catalog.=) l.bytes AND t.file_modified OPERATOR(pg_catalog.=) l.modified END, false)
