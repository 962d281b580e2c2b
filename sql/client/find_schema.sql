-- The schema of the table that a plain name means; where there is none, the schema in which it is made: the first of
-- search_path. The schema dbinfer is left out: a role of that name has it first ("$user"), but it is not for users' tables.
SELECT coalesce(
         (SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
           WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid),
         (SELECT s.name FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY s(name, place)
           WHERE s.name OPERATOR(pg_catalog.<>) 'dbinfer' ORDER BY s.place LIMIT 1))::pg_catalog.text
