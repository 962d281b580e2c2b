-- draw takes one argument more. Views, rules and constraints of users hold on to the function that they were made with, so it
-- stays, under a name of its own; a new installation makes it there.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_proc p
              WHERE p.pronamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer')
                AND p.proname = 'draw' AND p.pronargs = 3) THEN
    ALTER FUNCTION dbinfer.draw(bytea, dbinfer.detection[], bytea) RENAME TO _draw_found;
  END IF;
END $$;
