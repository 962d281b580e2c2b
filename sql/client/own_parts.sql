WITH RECURSIVE wanted AS (SELECT pg_catalog.to_regclass(%(table)s)::pg_catalog.oid AS oid)
-- include shared/strange_parts.sql
