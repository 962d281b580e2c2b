-- Whether each row knows which transaction has written it: all parts of the table are tables whose rows lie in heaps.
WITH RECURSIVE parts AS (
  SELECT pg_catalog.to_regclass(%(table)s)::pg_catalog.oid AS oid
  UNION SELECT i.inhrelid FROM parts p JOIN pg_catalog.pg_inherits i ON i.inhparent OPERATOR(pg_catalog.=) p.oid
)
SELECT pg_catalog.bool_and(c.relkind OPERATOR(pg_catalog.=) 'p'
                           OR (c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'm']::pg_catalog."char"[])
                               AND coalesce(m.amname OPERATOR(pg_catalog.=) 'heap', true)
                               -- Greenplum 6: h is a heap
                               AND coalesce(pg_catalog.row_to_json(c) OPERATOR(pg_catalog.->>) 'relstorage', 'h') OPERATOR(pg_catalog.=) 'h'))
  FROM parts p JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) p.oid
  LEFT JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) c.relam
