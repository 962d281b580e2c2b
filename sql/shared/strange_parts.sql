-- The rest of a query WITH RECURSIVE wanted AS (SELECT the oid of a table): what belongs to others and runs with the rights of
-- the role that writes to the table: the table and what inherits from it, and the functions, operators and types of
-- their triggers, rules, defaults, generated columns, checks, policies and indexes. Superusers need no such way.
, tables AS (
  SELECT w.oid FROM wanted w
  UNION SELECT i.inhrelid FROM tables t JOIN pg_catalog.pg_inherits i ON i.inhparent OPERATOR(pg_catalog.=) t.oid
), reached AS (
  SELECT 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid AS class, t.oid AS object FROM tables t
  UNION
  SELECT n.class, n.object FROM reached r CROSS JOIN LATERAL (
    -- parts go with what they are parts of, whether they were said to (a) or not (i)
    SELECT d.classid AS class, d.objid AS object FROM pg_catalog.pg_depend d
     WHERE d.refclassid OPERATOR(pg_catalog.=) r.class AND d.refobjid OPERATOR(pg_catalog.=) r.object AND d.deptype OPERATOR(pg_catalog.=) ANY (ARRAY['a', 'i']::pg_catalog."char"[])
    UNION ALL
    SELECT d.refclassid, d.refobjid FROM pg_catalog.pg_depend d
     WHERE d.classid OPERATOR(pg_catalog.=) r.class AND d.objid OPERATOR(pg_catalog.=) r.object
       AND d.refclassid OPERATOR(pg_catalog.=) ANY (ARRAY['pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid,
         'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid, 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid])
  ) n
), owned AS (
  SELECT r.class, r.object, coalesce(c.relowner, p.proowner, o.oprowner, t.typowner) AS owner FROM reached r
    LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) r.object
     AND r.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
    LEFT JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) r.object
     AND r.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    LEFT JOIN pg_catalog.pg_operator o ON o.oid OPERATOR(pg_catalog.=) r.object
     AND r.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_operator'::pg_catalog.regclass::pg_catalog.oid
    LEFT JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) r.object
     AND r.class OPERATOR(pg_catalog.=) 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid
)
SELECT pg_catalog.pg_describe_object(o.class, o.object, 0), a.rolname::pg_catalog.text
  FROM owned o JOIN pg_catalog.pg_roles a ON a.oid OPERATOR(pg_catalog.=) o.owner
 WHERE NOT a.rolsuper AND a.rolname OPERATOR(pg_catalog.<>) CURRENT_USER
 ORDER BY o.class OPERATOR(pg_catalog.<>) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, o.object
 LIMIT 1
