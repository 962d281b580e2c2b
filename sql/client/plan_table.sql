-- What kind of relation a name means, about how many rows and pages it has, and whether it has the column of images.
SELECT c.relkind::pg_catalog.text, c.reltuples::pg_catalog.float8, c.relpages,
       EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid
                  AND a.attname OPERATOR(pg_catalog.=) %(column)s AND NOT a.attisdropped
                  AND a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.bytea'::pg_catalog.regtype::pg_catalog.oid)
  FROM pg_catalog.pg_class c
 WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
