-- Of each column of a relation: number, name, type, whether it may be NULL, and the operators that its type is sorted by. Types of
-- extensions (citext) have operators of their own; for all others those of pg_catalog do.
SELECT a.attnum, a.attname::pg_catalog.text, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       (SELECT pg_catalog.json_object_agg(p.amopstrategy, pg_catalog.format('OPERATOR(%%I.%%s)', s.nspname, o.oprname))
          FROM pg_catalog.pg_opclass c
          JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) c.opcmethod
          JOIN pg_catalog.pg_amop p ON p.amopfamily OPERATOR(pg_catalog.=) c.opcfamily
          JOIN pg_catalog.pg_operator o ON o.oid OPERATOR(pg_catalog.=) p.amopopr
          JOIN pg_catalog.pg_namespace s ON s.oid OPERATOR(pg_catalog.=) o.oprnamespace
         WHERE m.amname OPERATOR(pg_catalog.=) 'btree' AND c.opcdefault AND c.opcintype OPERATOR(pg_catalog.=) a.atttypid
           AND p.amoplefttype OPERATOR(pg_catalog.=) c.opcintype AND p.amoprighttype OPERATOR(pg_catalog.=) c.opcintype)
  FROM pg_catalog.pg_attribute a
 WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
   AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
