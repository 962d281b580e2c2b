-- Removes exactly what install made (the owner role's objects in the two schemas); fails, and so changes nothing, where an
-- object of somebody else depends on it or lies in one of the schemas.
DO $$
DECLARE
  kind text;
  found text;
BEGIN
  FOR kind, found IN
    SELECT x.kind, x.found FROM (
      SELECT 1 AS step, 'VIEW' AS kind, c.oid::regclass::text AS found FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND c.relkind = 'v' AND c.relowner = 'dbinfer_owner'::regrole
      UNION ALL
      SELECT 2, CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid = p.oid) THEN 'AGGREGATE' ELSE 'FUNCTION' END,
             p.oid::regprocedure::text FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND p.proowner = 'dbinfer_owner'::regrole
      UNION ALL
      SELECT CASE c.relkind WHEN 'r' THEN 3 ELSE 4 END, CASE c.relkind WHEN 'r' THEN 'TABLE' ELSE 'SEQUENCE' END,
             c.oid::regclass::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND c.relkind IN ('r', 'S') AND c.relowner = 'dbinfer_owner'::regrole
      UNION ALL
      SELECT 5, 'TYPE', t.oid::regtype::text FROM pg_catalog.pg_type t
        JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
        WHERE n.nspname = 'dbinfer' AND c.relkind = 'c' AND t.typowner = 'dbinfer_owner'::regrole
      UNION ALL
      SELECT 6, 'SCHEMA', n.nspname::text FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
    ) x ORDER BY x.step
  LOOP
    EXECUTE format('DROP %s %s RESTRICT', kind, found);
  END LOOP;
END $$;
