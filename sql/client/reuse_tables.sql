-- Tables that keep results of these columns beside the digests of their images, with an index on those, and that the caller may read:
-- the caller's own, those of superusers, and those that are named. The owner of a table can write into it what he likes, and a policy on
-- it runs with its reader's rights.
SELECT c.oid::pg_catalog.int8, n.nspname::pg_catalog.text, c.relname::pg_catalog.text
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
  JOIN pg_catalog.pg_attribute d ON d.attrelid OPERATOR(pg_catalog.=) c.oid AND d.attname OPERATOR(pg_catalog.=) 'image_digest'
 WHERE c.relkind OPERATOR(pg_catalog.=) ANY (ARRAY['r', 'p']::pg_catalog."char"[]) AND NOT c.relispartition
   AND c.relpersistence OPERATOR(pg_catalog.<>) 't'
   AND EXISTS (SELECT FROM pg_catalog.pg_index i
                WHERE i.indrelid OPERATOR(pg_catalog.=) c.oid AND i.indkey[0] OPERATOR(pg_catalog.=) d.attnum AND i.indisvalid AND i.indpred IS NULL)
   AND NOT EXISTS (SELECT FROM ROWS FROM (pg_catalog.unnest(%(names)s::pg_catalog.text[]), pg_catalog.unnest(%(types)s::pg_catalog.text[])) w(name, kind)
                    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                                       WHERE a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attname::pg_catalog.text OPERATOR(pg_catalog.=) w.name
                                         AND a.atttypid OPERATOR(pg_catalog.=) w.kind::pg_catalog.regtype::pg_catalog.oid AND NOT a.attisdropped))
   AND (EXISTS (SELECT FROM pg_catalog.pg_roles r
                 WHERE r.oid OPERATOR(pg_catalog.=) c.relowner AND (r.rolsuper OR r.rolname OPERATOR(pg_catalog.=) CURRENT_USER))
        OR c.oid::pg_catalog.int8 OPERATOR(pg_catalog.=) ANY (%(named)s::pg_catalog.int8[]))
   AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
   AND (%(among)s::pg_catalog.int8[] IS NULL OR c.oid::pg_catalog.int8 OPERATOR(pg_catalog.=) ANY (%(among)s::pg_catalog.int8[]))
 ORDER BY c.oid
