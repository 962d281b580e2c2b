-- Condition as in changed_references.sql. The row stays, and with it its id and the columns that load does not know.
UPDATE {table} t SET {changes}
  FROM {listed} l
 WHERE t.{path} OPERATOR(pg_catalog.=) l.path
   AND NOT coalesce(CASE WHEN l.etag IS NOT NULL THEN t.etag OPERATOR(pg_catalog.=) l.etag
                         ELSE t.bytes OPERATOR(pg_catalog.=) l.bytes AND t.file_modified OPERATOR(pg_catalog.=) l.modified END, false)
