-- Who holds the lock of client/lock_load.sql; pg_locks shows both keys as oids.
SELECT l.pid, a.usename::pg_catalog.text
  FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) l.pid
 WHERE l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.granted
   AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
   AND l.classid::pg_catalog.int8 OPERATOR(pg_catalog.=) (pg_catalog.hashtext('dbinfer load')::pg_catalog.int8 OPERATOR(pg_catalog.&) 4294967295)
   AND l.objid::pg_catalog.int8 OPERATOR(pg_catalog.=) (pg_catalog.hashtext(%(table)s)::pg_catalog.int8 OPERATOR(pg_catalog.&) 4294967295)
 LIMIT 1
