CREATE OR REPLACE FUNCTION dbinfer_private.with_stores(caller oid, settings text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT json_object_agg(s.key, s.value)::text FROM (
  SELECT key, value FROM json_each_text(settings::json)
  UNION ALL
  SELECT 'stores', json_agg(row_to_json(t) ORDER BY t.name)::text FROM (
    SELECT name, url, endpoint, region, secret, private, seconds FROM dbinfer_private.store WHERE dbinfer_private.store_granted(caller, name)
  ) t
) s WHERE s.value IS NOT NULL
$$;
COMMENT ON FUNCTION dbinfer_private.with_stores(oid, text) IS 'the settings with the stores that a user may read, as JSON';
REVOKE ALL ON FUNCTION dbinfer_private.with_stores(oid, text) FROM PUBLIC;
