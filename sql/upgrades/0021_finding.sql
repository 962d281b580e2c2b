-- similar takes more arguments, and its statement is made from more. Views, rules and constraints of users hold on to the function
-- that they were made with, so it stays, under a name of its own; a new installation makes it there.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_proc p
              WHERE p.pronamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer')
                AND p.proname = 'similar' AND p.pronargs = 7) THEN
    ALTER FUNCTION dbinfer.similar(regclass, bytea, text, integer, text, name, name) RENAME TO _similar_to_image;
  END IF;
END $$;
DROP FUNCTION IF EXISTS dbinfer._embeddings(regclass, text, text, name, name, integer);
-- A version of a model that compares images with texts has two rows: its tower for images, and that for texts.
ALTER TABLE dbinfer_private.model_version ADD COLUMN tower text;
COMMENT ON COLUMN dbinfer_private.model_version.tower IS 'text: the network that dbinfer.embed_text runs, beside that of the same version for images; else NULL';
