-- Results go to the function's tuplestore, which the server keeps on disk beyond work_mem: no value grows with the table. STABLE:
-- both statements see what the caller's sees. No fixed search_path, which the caller's view may need; so every type, function and
-- operator is qualified.
CREATE OR REPLACE FUNCTION dbinfer._table(function text, images regclass, model text, on_error text, id_column name, img_column name)
RETURNS TABLE(id bigint, result text, file bytea)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000 AS $$
DECLARE
  scan text := dbinfer._new_scan();
  doing pg_catalog.text := pg_catalog.format('dbinfer.%s_table was reading %s.', function, images);
  n bigint;
  handed bigint := 0;
  rest record;
  told pg_catalog.text;
  hinted pg_catalog.text;
BEGIN
  PERFORM dbinfer._check_scan(function, images, id_column, img_column);
  RETURN QUERY EXECUTE dbinfer._scan_query(scan, function, images, model, on_error, id_column, img_column);
  GET DIAGNOSTICS n = ROW_COUNT;
  FOR rest IN EXECUTE dbinfer._rest_query(scan, function, model, on_error) LOOP
    handed := handed OPERATOR(pg_catalog.+) rest.handed;
    RETURN QUERY SELECT r.id, r.result, r.file
      FROM ROWS FROM (pg_catalog.unnest(rest.ids), pg_catalog.unnest(rest.texts), pg_catalog.unnest(rest.files)) r(id, result, file);
  END LOOP;
  PERFORM dbinfer._check_rest(function, n, handed);
-- include shared/raise_again.sql
END $$;
COMMENT ON FUNCTION dbinfer._table(text, regclass, text, text, name, name) IS 'internal: the results of all rows of a table, as text or bytes';
GRANT EXECUTE ON FUNCTION dbinfer._table(text, regclass, text, text, name, name) TO PUBLIC;
