-- What the queue answers for: the tables and files that hold the rows, each with its trigger. NULL where a part has no trigger, where it
-- does not fire, or where rows can change behind it.
WITH RECURSIVE parts AS (
  SELECT pg_catalog.to_regclass(%(table)s)::pg_catalog.oid AS oid
  UNION SELECT i.inhrelid FROM parts p JOIN pg_catalog.pg_inherits i ON i.inhparent OPERATOR(pg_catalog.=) p.oid
)
SELECT CASE WHEN pg_catalog.bool_and(t.oid IS NOT NULL AND c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p']::pg_catalog."char"[]))
            THEN pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat_ws(':', c.oid, c.relfilenode, t.oid), ' ' ORDER BY c.oid)) END
  FROM parts p
  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) p.oid
  LEFT JOIN pg_catalog.pg_trigger t ON t.tgrelid OPERATOR(pg_catalog.=) c.oid
   AND t.tgfoid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure(%(function)s)::pg_catalog.oid
   AND t.tgenabled OPERATOR(pg_catalog.=) ANY (ARRAY['O', 'A']::pg_catalog."char"[])
