-- Names and types of a relation's columns, each type with its schema, so that a cast to it is written in full.
SELECT a.attname::pg_catalog.text, n.nspname::pg_catalog.text, t.typname::pg_catalog.text
  FROM pg_catalog.pg_attribute a
  JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) t.typnamespace
 WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
   AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
 ORDER BY a.attnum
