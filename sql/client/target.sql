-- What a name is already: kind of the relation and whether it is the table that is scored; no row when it is free.
SELECT c.relkind::text, c.oid = to_regclass(%(table)s)
  FROM pg_catalog.pg_class c
 WHERE c.oid = to_regclass(%(into)s)
