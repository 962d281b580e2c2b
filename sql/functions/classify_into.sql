CREATE OR REPLACE FUNCTION dbinfer.classify_into(results regclass, images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
  at_once CONSTANT integer := 1000;
  batches dbinfer._scored[] := dbinfer._batches(images, model, on_error, id_column, img_column);
  written bigint := 0;
  n bigint;
BEGIN
  FOR i IN 1 .. coalesce(pg_catalog.cardinality(batches), 0) BY at_once LOOP
    EXECUTE pg_catalog.format($q$
      INSERT INTO %s (id, class, label, score)
      SELECT pg_catalog.unnest(b.ids), pg_catalog.unnest(b.classes), pg_catalog.unnest(b.labels), pg_catalog.unnest(b.scores)
        FROM pg_catalog.unnest($1) b
      $q$, results) USING batches[i : i OPERATOR(pg_catalog.+) at_once OPERATOR(pg_catalog.-) 1];
    GET DIAGNOSTICS n = ROW_COUNT;
    written := written OPERATOR(pg_catalog.+) n;
  END LOOP;
  RETURN written;
END $$;
COMMENT ON FUNCTION dbinfer.classify_into(regclass, regclass, text, text, name, name) IS 'scores every row of a table in batches and adds the best classes to results, an existing table (id, class, label, score); returns the number of rows';
GRANT EXECUTE ON FUNCTION dbinfer.classify_into(regclass, regclass, text, text, name, name) TO PUBLIC;
