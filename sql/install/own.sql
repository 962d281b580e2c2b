-- What belongs to no superuser passes to the superuser who runs this: the owner of a function or table decides what the others run.
DO $$
DECLARE
  kind text;
  found text;
BEGIN
  FOR kind, found IN
    SELECT x.kind, x.found FROM (
      SELECT 'SCHEMA' AS kind, pg_catalog.quote_ident(n.nspname) AS found, n.nspowner AS owner FROM pg_catalog.pg_namespace n
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
      UNION ALL
      SELECT CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TYPE' END,
             c.oid::regclass::text, c.relowner FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND c.relkind IN ('r', 'v', 'S', 'c')
      UNION ALL
      SELECT CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid = p.oid) THEN 'AGGREGATE' ELSE 'FUNCTION' END,
             p.oid::regprocedure::text, p.proowner FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
    ) x JOIN pg_catalog.pg_roles r ON r.oid = x.owner AND NOT r.rolsuper
  LOOP
    EXECUTE pg_catalog.format('ALTER %s %s OWNER TO %I', kind, found, current_user);
  END LOOP;
END $$;
