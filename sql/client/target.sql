-- What a name is already: kind of the relation and whether it is the table that is scored; no row when it is free.
-- OPERATOR(pg_catalog.=) here and elsewhere: another user's operator, found through the caller's search_path, may fit the
-- types better than the server's own, and would run with the caller's rights.
SELECT c.relkind::pg_catalog.text, c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
  FROM pg_catalog.pg_class c
 WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(into)s)::pg_catalog.oid
