-- Settings of pgvector, until this statement puts back what it got; an error puts them back by itself. By set_config, as a function
-- that is STABLE may not SET, and one with a SET of its own could not be made before the library knows the names.
CREATE OR REPLACE FUNCTION dbinfer._iterate(put_back text[]) RETURNS text[] LANGUAGE plpgsql STABLE PARALLEL UNSAFE AS $$
DECLARE
  before pg_catalog.text[] := ARRAY[pg_catalog.current_setting('hnsw.iterative_scan', true), pg_catalog.current_setting('hnsw.ef_search', true)];
  wanted pg_catalog.text[] := coalesce(put_back, ARRAY['strict_order', greatest(before[2]::pg_catalog.int4, 400)::pg_catalog.text]);
BEGIN
  PERFORM pg_catalog.set_config('hnsw.iterative_scan', wanted[1], true), pg_catalog.set_config('hnsw.ef_search', wanted[2], true);
  RETURN before;
END $$;
COMMENT ON FUNCTION dbinfer._iterate(text[]) IS 'internal: lets pgvector search until enough rows fulfil a condition; returns what was set before';
GRANT EXECUTE ON FUNCTION dbinfer._iterate(text[]) TO PUBLIC;
