-- Whether the caller owns this ordinary table, and whether its parallel workers are set already.
SELECT pg_catalog.pg_has_role(c.relowner, 'USAGE') AND c.relkind OPERATOR(pg_catalog.=) 'r',
       pg_catalog.strpos(coalesce(pg_catalog.array_to_string(c.reloptions, ','), ''), 'parallel_workers') OPERATOR(pg_catalog.>) 0
  FROM pg_catalog.pg_class c
 WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
