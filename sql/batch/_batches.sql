-- What is left of the last batch of each process is scored row by row, here.
CREATE OR REPLACE FUNCTION dbinfer._batches(images regclass, model text, on_error text, id_column name, img_column name)
RETURNS dbinfer._scored[] LANGUAGE plpgsql STABLE PARALLEL UNSAFE AS $$
DECLARE
  wanted name;
  types regtype[];
  found regtype;
  total bigint;
  batches dbinfer._scored[];
  waiting text;
  rest dbinfer._scored;
BEGIN
  /* greenplum: IF pg_catalog.current_setting('gp_role') <> 'dispatch' THEN
    RAISE feature_not_supported USING MESSAGE = 'dbinfer: classify_table cannot read a table from within this statement',
      HINT = 'Let it stand alone: SELECT * FROM dbinfer.classify_table(...); results go into a table with dbinfer.classify_into.';
  END IF; */
  FOR wanted, types IN VALUES (id_column, '{smallint,integer,bigint}'::regtype[]), (img_column, '{bytea}') LOOP
    SELECT a.atttypid INTO found FROM pg_catalog.pg_attribute a
     WHERE a.attrelid = images AND a.attname = wanted AND NOT a.attisdropped;
    IF found IS NULL THEN
      RAISE undefined_column USING MESSAGE = pg_catalog.format('dbinfer: %s has no column "%s"', coalesce(images::text, 'NULL'), wanted),
        HINT = 'Name its columns: dbinfer.classify_table(''images'', id_column => ''number'', img_column => ''photo'')';
    ELSIF found <> ALL (types) THEN
      RAISE datatype_mismatch USING MESSAGE = pg_catalog.format('dbinfer: column "%s" of %s is of type %s, but must be %s',
        wanted, images, found, pg_catalog.array_to_string(types, ' or ')), HINT = 'Make a view that casts it, and name the view.';
    END IF;
  END LOOP;
  EXECUTE dbinfer._batch_query(images, id_column, img_column, model, on_error) INTO total, batches, waiting;
  IF waiting <> '' THEN
    EXECUTE pg_catalog.format($q$
      SELECT pg_catalog.array_agg(w.id), pg_catalog.array_agg((w.c).class), pg_catalog.array_agg((w.c).label), pg_catalog.array_agg((w.c).score)
        FROM (
          SELECT pg_catalog.split_part(r, ':', 1)::bigint AS id,
                 dbinfer.classify(pg_catalog.decode(nullif(pg_catalog.split_part(r, ':', 2), ''), 'base64'), %L, %L) AS c
            FROM pg_catalog.regexp_split_to_table($1, ';') r WHERE r <> '' OFFSET 0) w
      $q$, model, on_error) INTO rest USING waiting;
    batches := batches || rest;
  END IF;
  SELECT total - coalesce(pg_catalog.sum(pg_catalog.cardinality(b.ids)), 0) INTO total FROM pg_catalog.unnest(batches) b;
  IF total <> 0 THEN
    RAISE internal_error USING MESSAGE = pg_catalog.format('dbinfer: %s rows did not come back from their batches', total),
      HINT = 'This is a defect of dbinfer. SELECT id, dbinfer.classify(img) gives the same row by row.';
  END IF;
  RETURN batches;
END $$;
COMMENT ON FUNCTION dbinfer._batches(regclass, text, text, name, name) IS 'internal: the results of all rows of a table';
GRANT EXECUTE ON FUNCTION dbinfer._batches(regclass, text, text, name, name) TO PUBLIC;
