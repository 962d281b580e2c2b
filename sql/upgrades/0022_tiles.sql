-- segment and detect take one argument more. Views, rules and constraints of users hold on to the functions that they were made
-- with, so these stay, under names of their own; a new installation makes them there. A database of 0.1.0 has no detect yet.
DO $$
DECLARE
  space oid := (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer');
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = space AND p.proname = 'segment' AND p.pronargs = 3) THEN
    ALTER FUNCTION dbinfer.segment(bytea, text, text) RENAME TO _segment_image;
  END IF;
  IF EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = space AND p.proname = 'detect' AND p.pronargs = 3) THEN
    ALTER FUNCTION dbinfer.detect(bytea, text, text) RENAME TO _detect_image;
  END IF;
END $$;
