-- Its rows: id, result as text, result as bytes. Innermost, _take sees each row once, where the row lies, and what it returns for
-- most of them goes no further: no image moves. Greenplum 6 gives no row where one unnest has none, so texts and files get NULLs there.
CREATE OR REPLACE FUNCTION dbinfer._scan_query(scan text, function text, images regclass, model text, on_error text, id_column name, img_column name)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT pg_catalog.format($q$
  SELECT pg_catalog.unnest((s.b).ids) AS id,
         /* greenplum6: pg_catalog.unnest(coalesce((s.b).texts, pg_catalog.array_fill(NULL::pg_catalog.text, ARRAY[pg_catalog.cardinality((s.b).ids)]))) AS result,
         pg_catalog.unnest(coalesce((s.b).files, pg_catalog.array_fill(NULL::pg_catalog.bytea, ARRAY[pg_catalog.cardinality((s.b).ids)]))) AS file */
         pg_catalog.unnest((s.b).texts) AS result, pg_catalog.unnest((s.b).files) AS file /* :greenplum6 */
    FROM (SELECT dbinfer._take(%L, %L, %3$I, %8$s, dbinfer._resolve(%5$L, %4$I IS NULL), %6$L) AS b FROM %7$s) s
   WHERE (s.b).ids IS NOT NULL
  $q$, function, scan, id_column, img_column, model, on_error, images, dbinfer._image_of(images, img_column, on_error))
$$;
COMMENT ON FUNCTION dbinfer._scan_query(text, text, regclass, text, text, name, name) IS 'internal: the statement that scores a table in batches';
GRANT EXECUTE ON FUNCTION dbinfer._scan_query(text, text, regclass, text, text, name, name) TO PUBLIC;
