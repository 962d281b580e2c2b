-- estimate takes a table of answers. What users have made with it holds on to the function of before, under a name of its own.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_proc p
              WHERE p.pronamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer')
                AND p.proname = 'estimate' AND p.pronargs = 7) THEN
    ALTER FUNCTION dbinfer.estimate(regclass, text, double precision, double precision, text, text, name) RENAME TO _estimate_rows;
  END IF;
END $$;
