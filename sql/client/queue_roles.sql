-- Who has to do with a queue: kind and owner of the table of images; who owns the results, if they are there; whose rights the
-- schema of the results follows, and whether that is a superuser; who asks, and whether that is one.
SELECT c.relkind::pg_catalog.text, pg_catalog.pg_get_userbyid(c.relowner)::pg_catalog.text,
       (SELECT pg_catalog.pg_get_userbyid(r.relowner)::pg_catalog.text FROM pg_catalog.pg_class r
         WHERE r.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(into)s)::pg_catalog.oid),
       o.rolname::pg_catalog.text, o.rolsuper, CURRENT_USER::pg_catalog.text,
       (SELECT u.rolsuper FROM pg_catalog.pg_roles u WHERE u.rolname OPERATOR(pg_catalog.=) CURRENT_USER)
  FROM pg_catalog.pg_class c,
       pg_catalog.pg_namespace n,
       pg_catalog.pg_database d,
       pg_catalog.pg_roles s,
       pg_catalog.pg_roles o
 WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
   AND n.nspname OPERATOR(pg_catalog.=) %(schema)s
   AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
   AND s.oid OPERATOR(pg_catalog.=) n.nspowner
   -- since PostgreSQL 14 a role stands for the owner of the database
   AND o.oid OPERATOR(pg_catalog.=) CASE WHEN s.rolname OPERATOR(pg_catalog.=) 'pg_database_owner' THEN d.datdba ELSE s.oid END
