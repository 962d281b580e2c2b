-- predict and predict_tensor take one argument more. Views, rules and constraints of users hold on to the functions that they were
-- made with, so those stay, under names of their own; a new installation makes them there.
DO $$
DECLARE
  old text;
BEGIN
  FOR old IN SELECT p.proname FROM pg_catalog.pg_proc p
              WHERE p.pronamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer')
                AND p.proname IN ('predict', 'predict_tensor') AND p.pronargs = 3 LOOP
    EXECUTE pg_catalog.format('ALTER FUNCTION dbinfer.%I(bytea, text, text) RENAME TO %I', old, '_' || old);
  END LOOP;
END $$;
