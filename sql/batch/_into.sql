-- The columns of results take `parts`, expressions on s.r, which is `value`, an expression on q.result or q.file.
CREATE OR REPLACE FUNCTION dbinfer._into(results regclass, columns text, parts text, value text, function text, images regclass, model text,
  on_error text, id_column name, img_column name)
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
  scan text := dbinfer._new_scan();
  -- OFFSET 0: what several parts are taken from is computed once
  statement text := pg_catalog.format('INSERT INTO %s (id, %s) SELECT s.id, %s FROM (SELECT q.id, %s AS r FROM (%%s) q OFFSET 0) s',
                                      results, columns, parts, value);
  doing pg_catalog.text := pg_catalog.format('dbinfer.%s_into was filling %s.', function, results);
  n bigint;
  told pg_catalog.text;
  hinted pg_catalog.text;
  /* greenplum: written bigint;
  handed bigint := 0;
  rest record; */
BEGIN
  PERFORM dbinfer._check_target(results);
  PERFORM dbinfer._check_scan(function, images, id_column, img_column);
  EXECUTE pg_catalog.format(statement, dbinfer._source_query(scan, function, images, model, on_error, id_column, img_column));
  GET DIAGNOSTICS n = ROW_COUNT;
  /* greenplum: written := n;
  FOR rest IN EXECUTE dbinfer._rest_query(scan, function, model, on_error) LOOP
    EXECUTE pg_catalog.format(statement, 'SELECT pg_catalog.unnest($1) AS id, pg_catalog.unnest($2) AS result, pg_catalog.unnest($3) AS file')
      -- Greenplum 6 gives no row where one unnest has none
      USING rest.ids, coalesce(rest.texts, pg_catalog.array_fill(NULL::pg_catalog.text, ARRAY[pg_catalog.cardinality(rest.ids)])),
            coalesce(rest.files, pg_catalog.array_fill(NULL::pg_catalog.bytea, ARRAY[pg_catalog.cardinality(rest.ids)]));
    GET DIAGNOSTICS n = ROW_COUNT;
    written := written OPERATOR(pg_catalog.+) n;
    handed := handed OPERATOR(pg_catalog.+) rest.handed OPERATOR(pg_catalog.+) n;
  END LOOP;
  PERFORM dbinfer._check_rest(function, written, handed);
  n := written; */
  RETURN n;
-- include shared/raise_again.sql
END $$;
COMMENT ON FUNCTION dbinfer._into(regclass, text, text, text, text, regclass, text, text, name, name) IS 'internal: adds the results of all rows of a table to another; the number of rows';
GRANT EXECUTE ON FUNCTION dbinfer._into(regclass, text, text, text, text, regclass, text, text, name, name) TO PUBLIC;
