-- dbinfer_admin may call functions that deploy and manage, and owns nothing; the installer makes the role, or refuses one that
-- is not ours, and everything belongs to a superuser. What dbinfer_owner granted while it owned the registry ends here.
DO $$
DECLARE
  kind text;
  found text;
  grantee text;
BEGIN
  FOR kind, found, grantee IN
    SELECT x.kind, x.found, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END FROM (
      SELECT 'SCHEMA' AS kind, pg_catalog.quote_ident(n.nspname) AS found, n.nspacl AS acl, n.nspowner AS owner
        FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
      UNION ALL
      SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relacl, c.relowner
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND c.relkind IN ('r', 'v', 'S')
      UNION ALL
      SELECT 'TABLE', c.oid::regclass::text, a.attacl, c.relowner FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname IN ('dbinfer', 'dbinfer_private') AND a.attacl IS NOT NULL
      UNION ALL
      SELECT 'FUNCTION', p.oid::regprocedure::text, p.proacl, p.proowner FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN ('dbinfer', 'dbinfer_private')
    ) x, LATERAL pg_catalog.aclexplode(x.acl) a
    -- each function's own file says what PUBLIC may do
    WHERE a.grantee <> x.owner AND NOT (x.kind = 'FUNCTION' AND a.grantee = 0)
  LOOP
    EXECUTE pg_catalog.format('REVOKE ALL ON %s %s FROM %s CASCADE', kind, found, grantee);
  END LOOP;
END $$;
GRANT USAGE ON SCHEMA dbinfer TO PUBLIC;
COMMENT ON SCHEMA dbinfer_private IS 'registry tables and helpers of dbinfer; nobody but its owner, a superuser, has USAGE';

-- These two were made once, and whoever owned them could have put others in their place.
DROP AGGREGATE IF EXISTS dbinfer._collect(dbinfer._scored);
CREATE AGGREGATE dbinfer._collect(dbinfer._scored) (
  SFUNC = pg_catalog.array_append, STYPE = dbinfer._scored[], COMBINEFUNC = pg_catalog.array_cat, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dbinfer._collect(dbinfer._scored) IS 'internal: all values as an array';
DROP AGGREGATE IF EXISTS dbinfer._last(bytea, integer, integer);
CREATE AGGREGATE dbinfer._last(bytea, integer, integer) (
  SFUNC = pg_catalog.overlay, STYPE = bytea, COMBINEFUNC = pg_catalog.byteacat, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dbinfer._last(bytea, integer, integer) IS 'internal: the last value of each process';
