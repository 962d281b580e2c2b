-- Settings of pgvector, until this statement puts back what it got; an error puts them back by itself. By set_config, as a function
-- that is STABLE may not SET, and one with a SET of its own could not be made before the library knows the names.
CREATE OR REPLACE FUNCTION dbinfer._iterate(put_back text[]) RETURNS text[] LANGUAGE plpgsql STABLE PARALLEL UNSAFE AS $$
DECLARE
  before pg_catalog.text[];
  wanted pg_catalog.text[];
BEGIN
  -- loads the library, which then shows its settings
  EXECUTE 'SELECT ''[1]''' OPERATOR(pg_catalog.||) dbinfer._vector_cast(1);
  before := ARRAY[(SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) 'hnsw.iterative_scan'),
                  (SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name OPERATOR(pg_catalog.=) 'hnsw.ef_search')];
  wanted := coalesce(put_back, ARRAY['strict_order', greatest(before[2]::pg_catalog.int4, 400)::pg_catalog.text]);
  PERFORM pg_catalog.set_config('hnsw.iterative_scan', wanted[1], true), pg_catalog.set_config('hnsw.ef_search', wanted[2], true);
  RETURN before;
END $$;
COMMENT ON FUNCTION dbinfer._iterate(text[]) IS 'internal: lets pgvector search until enough rows fulfil a condition; returns what was set before';
GRANT EXECUTE ON FUNCTION dbinfer._iterate(text[]) TO PUBLIC;
