-- The condition for rows that this version of a model has made: a table of `dbinfer score` keeps those of several. NULL for a
-- table without the columns model and version.
CREATE OR REPLACE FUNCTION dbinfer._embedded_by(embeddings regclass, model text) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT pg_catalog.format('model OPERATOR(pg_catalog.=) %L::pg_catalog.text AND version OPERATOR(pg_catalog.=) %s', v.name, v.version)
  FROM dbinfer.model_versions v JOIN dbinfer.models m ON m.name OPERATOR(pg_catalog.=) v.name
 WHERE (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a
         WHERE a.attrelid OPERATOR(pg_catalog.=) embeddings::pg_catalog.oid AND NOT a.attisdropped
           AND (a.attname OPERATOR(pg_catalog.=) 'model' AND a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.text'::pg_catalog.regtype::pg_catalog.oid
             OR a.attname OPERATOR(pg_catalog.=) 'version' AND a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.int4'::pg_catalog.regtype::pg_catalog.oid)
       ) OPERATOR(pg_catalog.=) 2
   AND CASE WHEN _embedded_by.model IS NULL THEN m.is_default
            ELSE m.name OPERATOR(pg_catalog.=) pg_catalog.split_part(_embedded_by.model, '@', 1) END
   AND CASE WHEN coalesce(pg_catalog.strpos(_embedded_by.model, '@'), 0) OPERATOR(pg_catalog.=) 0 THEN v.active
            ELSE v.version::pg_catalog.text OPERATOR(pg_catalog.=) pg_catalog.split_part(_embedded_by.model, '@', 2)
              OR pg_catalog.split_part(_embedded_by.model, '@', 2) OPERATOR(pg_catalog.=) ANY (v.aliases) END
$$;
COMMENT ON FUNCTION dbinfer._embedded_by(regclass, text) IS 'internal: which rows of a table of embeddings are those of a version';
GRANT EXECUTE ON FUNCTION dbinfer._embedded_by(regclass, text) TO PUBLIC;
