-- Removes exactly what install made, by its names; fails, and so changes nothing, where another user's object depends
-- on it or lies in one of the schemas.
DO $$
DECLARE
  kind text;
  found text;
BEGIN
  FOR kind, found IN
    -- all of a kind at once: views may depend on each other
    SELECT x.kind, pg_catalog.string_agg(x.found, ', ') FROM (
      SELECT CASE c.relkind WHEN 'v' THEN 1 WHEN 'r' THEN 3 WHEN 'S' THEN 4 ELSE 5 END AS step,
             CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'r' THEN 'TABLE' WHEN 'S' THEN 'SEQUENCE' ELSE 'TYPE' END AS kind,
             c.oid::regclass::text AS found FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind::text || ' ' || n.nspname || '.' || c.relname = ANY (%(relations)s::text[])
      UNION ALL
      SELECT 2, CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid = p.oid) THEN 'AGGREGATE' ELSE 'FUNCTION' END,
             p.oid::regprocedure::text FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
       WHERE n.nspname || '.' || p.proname = ANY (%(functions)s::text[])
      UNION ALL
      SELECT 6, 'SCHEMA', n.nspname::text FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
    ) x GROUP BY x.step, x.kind ORDER BY x.step
  LOOP
    EXECUTE pg_catalog.format('DROP %%s %%s RESTRICT', kind, found);
  END LOOP;
END $$;
