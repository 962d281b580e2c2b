-- One line for each thing that somebody else than the owner may do with dbinfer's objects, and one for each function.
SELECT line FROM (
  SELECT 'schema ' || n.nspname || ': ' || coalesce(array_to_string(ARRAY(
           SELECT coalesce(nullif(a.grantee::regrole::text, '-'), 'public') || '=' || a.privilege_type
             FROM aclexplode(n.nspacl) a WHERE a.grantee <> n.nspowner ORDER BY 1), ' '), '') AS line
    FROM pg_namespace n WHERE n.nspname LIKE 'dbinfer%'
  UNION ALL
  SELECT CASE c.relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'table ' END || n.nspname || '.' || c.relname || ': '
         || coalesce(array_to_string(ARRAY(
           SELECT coalesce(nullif(a.grantee::regrole::text, '-'), 'public') || '=' || a.privilege_type
             FROM aclexplode(c.relacl) a WHERE a.grantee <> c.relowner ORDER BY 1), ' '), '')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname LIKE 'dbinfer%' AND c.relkind IN ('r', 'v', 'S')
  UNION ALL
  SELECT 'function ' || n.nspname || '.' || p.proname || '(' || replace(pg_get_function_identity_arguments(p.oid), 'dbinfer.', '') || '): '
         || CASE WHEN has_function_privilege('pg_signal_backend', p.oid, 'EXECUTE') THEN 'public'
              WHEN has_function_privilege('dbinfer_admin', p.oid, 'EXECUTE') THEN 'admin' ELSE 'owner' END
         || CASE WHEN p.prosecdef THEN ', security definer' ELSE '' END
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname LIKE 'dbinfer%'
) x
 ORDER BY line COLLATE "C"
