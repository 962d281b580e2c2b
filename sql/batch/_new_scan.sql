-- A name: of this process, of the client's statement, and of this scan. By it, what an earlier statement has left in a
-- process or a file is recognized as stale (udf/dbinfer_udf/model/waiting.py).
CREATE OR REPLACE FUNCTION dbinfer._new_scan() RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
SELECT pg_catalog.format('%s.%s.%s', pg_catalog.pg_backend_pid(), pg_catalog.to_char(pg_catalog.statement_timestamp(), 'YYYYMMDDHH24MISSUS'),
                         pg_catalog.md5(pg_catalog.concat(pg_catalog.clock_timestamp(), pg_catalog.random())))
$$;
COMMENT ON FUNCTION dbinfer._new_scan() IS 'internal: a name for a scan of a table';
GRANT EXECUTE ON FUNCTION dbinfer._new_scan() TO PUBLIC;
