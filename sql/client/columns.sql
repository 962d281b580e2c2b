-- Names and types (without length) of a table's columns.
SELECT a.attname::pg_catalog.text, pg_catalog.format_type(a.atttypid, NULL)
  FROM pg_catalog.pg_attribute a
 WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
   AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
