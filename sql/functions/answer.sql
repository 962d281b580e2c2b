CREATE OR REPLACE FUNCTION dbinfer.answer(request bigint, seconds double precision DEFAULT 30) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN request IS NOT NULL THEN dbinfer._answer(request, seconds, dbinfer._ask('dbinfer request')) END;
END $$;
COMMENT ON FUNCTION dbinfer.answer(bigint, double precision) IS
  'the result of dbinfer.request as text, which casts to the function''s type; raises what is wrong with the image; NULL where no worker answers within so many seconds, e.g. SELECT (dbinfer.answer(request)::dbinfer.classification).label FROM requested';
GRANT EXECUTE ON FUNCTION dbinfer.answer(bigint, double precision) TO PUBLIC;
