-- Names and types (without length) of a table's columns.
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, NULL)
  FROM pg_catalog.pg_attribute a
 WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::oid AND a.attnum > 0 AND NOT a.attisdropped
