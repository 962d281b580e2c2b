-- What lies in our schemas, or hangs on our tables, and is not ours: it could run with the rights of the superuser who
-- installs or upgrades, or keep a hand in the registry afterwards. Reads the catalog alone, and runs nothing of it.
SELECT x.found FROM (
  SELECT pg_catalog.format('function %%s', p.oid::regprocedure) AS found
    FROM (SELECT q.oid, q.pronamespace, q.proname, pg_catalog.count(*) OVER (PARTITION BY q.pronamespace, q.proname) AS named
            FROM pg_catalog.pg_proc q) p
    JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
   WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
     AND (n.nspname || '.' || p.proname <> ALL (%(functions)s::text[]) OR p.named > 1)
  UNION ALL
  SELECT pg_catalog.format('relation %%s', c.oid::regclass)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND c.relkind NOT IN ('i', 't')
     AND c.relkind::text || ' ' || n.nspname || '.' || c.relname <> ALL (%(relations)s::text[])
  UNION ALL
  SELECT pg_catalog.format('type %%s', t.oid::regtype)
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
   WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND t.typrelid = 0 AND t.typelem = 0
  UNION ALL
  SELECT pg_catalog.format('operator %%s', o.oid::regoperator)
    FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
   WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
  UNION ALL
  SELECT pg_catalog.format('%%s of %%s', x.what, x.relation::regclass)
    FROM (SELECT 'trigger ' || g.tgname AS what, g.tgrelid AS relation FROM pg_catalog.pg_trigger g WHERE NOT g.tgisinternal
          UNION ALL
          -- _RETURN is what a view is made of
          SELECT 'rule ' || r.rulename, r.ev_class FROM pg_catalog.pg_rewrite r WHERE r.rulename <> '_RETURN'
          UNION ALL
          /* greenplum6: */
          SELECT 'policy ' || y.polname, y.polrelid FROM pg_catalog.pg_policy y
          UNION ALL
          /* :greenplum6 */
          SELECT 'default of column ' || a.attname, d.adrelid FROM pg_catalog.pg_attrdef d
            JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
          UNION ALL
          -- n: NOT NULL, which PostgreSQL 18 keeps as a constraint
          SELECT 'constraint ' || k.conname, k.conrelid FROM pg_catalog.pg_constraint k WHERE k.contype NOT IN ('p', 'n')
          UNION ALL
          SELECT 'index ' || i.indexrelid::regclass, i.indrelid FROM pg_catalog.pg_index i WHERE NOT i.indisprimary
          UNION ALL
          /* greenplum6: */
          SELECT 'statistics ' || e.stxname, e.stxrelid FROM pg_catalog.pg_statistic_ext e
          UNION ALL
          /* :greenplum6 */
          SELECT 'child ' || h.inhrelid::regclass, h.inhparent FROM pg_catalog.pg_inherits h
          UNION ALL
          SELECT 'column ' || a.attname || ' of a type that is not the server''s', a.attrelid
            FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
            JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
           WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'c')
             AND t.typnamespace <> (SELECT s.oid FROM pg_catalog.pg_namespace s WHERE s.nspname = 'pg_catalog')) x
    JOIN pg_catalog.pg_class c ON c.oid = x.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND c.relkind NOT IN ('t')
) x
 ORDER BY 1
