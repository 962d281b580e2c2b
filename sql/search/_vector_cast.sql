-- How an embedding becomes pgvector's type, or stays real[] without pgvector. An index on the same expression is used. Its names
-- are never looked up in the caller's search path.
CREATE OR REPLACE FUNCTION dbinfer._vector_cast(dimensions integer) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT coalesce((SELECT pg_catalog.format('::%I.vector(%s)', n.nspname, dimensions)
                   FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
                  WHERE e.extname OPERATOR(pg_catalog.=) 'vector'), '::pg_catalog.float4[]')
$$;
COMMENT ON FUNCTION dbinfer._vector_cast(integer) IS 'internal: the cast to pgvector''s type, where the extension is there';
GRANT EXECUTE ON FUNCTION dbinfer._vector_cast(integer) TO PUBLIC;
