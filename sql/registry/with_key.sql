CREATE OR REPLACE FUNCTION dbinfer_private.with_key(object jsonb, name text, content jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
-- jsonb_set and || came after Greenplum 6
SELECT json_object_agg(k.key, k.value::json)::jsonb
  FROM (SELECT e.key, e.value::text AS value FROM jsonb_each(object) e WHERE e.key <> name UNION ALL SELECT name, content::text) k
$$;
COMMENT ON FUNCTION dbinfer_private.with_key(jsonb, text, jsonb) IS 'a JSON object with this key set; NULL counts as an empty object';
REVOKE ALL ON FUNCTION dbinfer_private.with_key(jsonb, text, jsonb) FROM PUBLIC;
