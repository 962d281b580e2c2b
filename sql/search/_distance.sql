-- The cosine distance of two expressions, by pgvector where it is there.
CREATE OR REPLACE FUNCTION dbinfer._distance(one text, other text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT coalesce((SELECT pg_catalog.format('%s OPERATOR(%I.<=>) %s', one, n.nspname, other)
                   FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
                  WHERE e.extname OPERATOR(pg_catalog.=) 'vector'), pg_catalog.format('dbinfer.cosine_distance(%s, %s)', one, other))
$$;
COMMENT ON FUNCTION dbinfer._distance(text, text) IS 'internal: the cosine distance of two expressions';
GRANT EXECUTE ON FUNCTION dbinfer._distance(text, text) TO PUBLIC;
