-- Its row: (number of rows, results of whole batches, rows that were left waiting). Innermost, _batch sees each row once,
-- where the row lies; one state of each process moves, with less than a batch of images.
CREATE OR REPLACE FUNCTION dbinfer._batch_query(images regclass, id_column name, img_column name, model text, on_error text)
RETURNS text LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
-- 40 is the ( of a literal with results: rows that wait begin with an id. md5: a name for this scan, so that rows which an
-- earlier one has left in a process are not taken for its own
SELECT pg_catalog.format($q$
  SELECT pg_catalog.count(*),
         dbinfer._collect(pg_catalog.convert_from(b, 'UTF8')::dbinfer._scored) FILTER (WHERE pg_catalog.get_byte(b, 0) OPERATOR(pg_catalog.=) 40),
         pg_catalog.convert_from(dbinfer._last(CASE WHEN pg_catalog.get_byte(b, 0) OPERATOR(pg_catalog.=) 40
                                                       THEN '' ELSE b END, 1, 2000000000), 'UTF8')
    FROM (SELECT dbinfer._batch(%L, %2$I, %3$I, dbinfer._resolve(%4$L, %3$I IS NULL), %5$L) AS b FROM %6$s) s
  $q$, pg_catalog.md5(pg_catalog.concat(pg_catalog.clock_timestamp(), pg_catalog.random())), id_column, img_column, model, on_error, images)
$$;
COMMENT ON FUNCTION dbinfer._batch_query(regclass, name, name, text, text) IS 'internal: the statement that scores a table in batches';
GRANT EXECUTE ON FUNCTION dbinfer._batch_query(regclass, name, name, text, text) TO PUBLIC;
