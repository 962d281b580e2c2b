-- The schema of the table that a plain name means; where there is none, the schema in which it would be made.
SELECT coalesce(
         (SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
           WHERE c.oid = to_regclass(%(table)s)),
         current_schema())::text
