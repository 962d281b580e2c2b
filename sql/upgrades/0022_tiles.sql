-- segment and detect take one argument more. Views, rules and constraints of users hold on to the functions that they were made
-- with, so these stay, under names of their own; a new installation makes them there.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_proc p
              WHERE p.pronamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer')
                AND p.proname = 'segment' AND p.pronargs = 3) THEN
    ALTER FUNCTION dbinfer.segment(bytea, text, text) RENAME TO _segment_image;
    ALTER FUNCTION dbinfer.detect(bytea, text, text) RENAME TO _detect_image;
  END IF;
END $$;
