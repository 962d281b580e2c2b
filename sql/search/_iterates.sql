-- From 0.8 on pgvector's HNSW index goes on searching until enough rows fulfil a condition. An IVFFlat index does as well, but finds few of
-- the nearest in the lists that it begins with.
CREATE OR REPLACE FUNCTION dbinfer._iterates(embeddings regclass) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'vector'
                  AND pg_catalog.string_to_array(e.extversion, '.')::pg_catalog.int4[] OPERATOR(pg_catalog.>=) '{0,8}'::pg_catalog.int4[])
   AND coalesce((SELECT pg_catalog.bool_and(a.amname OPERATOR(pg_catalog.=) 'hnsw')
                   FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
                   JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
                  WHERE i.indrelid OPERATOR(pg_catalog.=) embeddings::pg_catalog.oid
                    AND a.amname OPERATOR(pg_catalog.=) ANY ('{hnsw,ivfflat}'::pg_catalog.name[])), false)
$$;
COMMENT ON FUNCTION dbinfer._iterates(regclass) IS 'internal: whether a table has an index of neighbours that goes on searching';
GRANT EXECUTE ON FUNCTION dbinfer._iterates(regclass) TO PUBLIC;
