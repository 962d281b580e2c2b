-- Everything of a database that an installation could leave: one line an object, for comparisons before and after.
SELECT concat_ws('|', 'function', p.oid::regprocedure, p.prosrc, p.proconfig, p.provolatile, p.prosecdef, p.proowner::regrole,
                 p.proacl, p.procost, obj_description(p.oid, 'pg_proc'), l.lanname, p.prorettype::regtype) AS line
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
UNION ALL
SELECT concat_ws('|', 'relation', c.relkind, n.nspname || '.' || c.relname, c.relowner::regrole, c.relacl,
                 obj_description(c.oid, 'pg_class'), CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'pg_aoseg', 'pg_ext_aux')
UNION ALL
SELECT concat_ws('|', 'column', a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage)
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname LIKE 'dbinfer%' AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT concat_ws('|', 'schema', n.nspname, n.nspowner::regrole, n.nspacl)
  FROM pg_namespace n WHERE n.nspname !~ '^pg_(temp|toast_temp)'
UNION ALL
SELECT concat_ws('|', 'type', n.nspname, t.typname) FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'pg_aoseg')
UNION ALL
SELECT 'language|' || l.lanname FROM pg_language l
UNION ALL
SELECT 'extension|' || e.extname FROM pg_extension e
UNION ALL
SELECT 'role|' || r.rolname FROM pg_roles r WHERE r.rolname IN ('dbinfer_admin', 'dbinfer_owner')
UNION ALL
SELECT concat_ws('|', 'setting', s.setrole, s.setconfig) FROM pg_db_role_setting s
 WHERE s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
 ORDER BY 1
