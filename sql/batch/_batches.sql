-- What is left of the last batch of each process is scored row by row, here. No fixed search_path, which the caller's view may
-- need; so every type, function and operator is qualified.
CREATE OR REPLACE FUNCTION dbinfer._batches(images regclass, model text, on_error text, id_column name, img_column name)
RETURNS dbinfer._scored[] LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET array_nulls = on /* results are read from array literals with NULL in them */ AS $$
DECLARE
  wanted pg_catalog.name;
  types pg_catalog.regtype[];
  found pg_catalog.regtype;
  total bigint;
  batches dbinfer._scored[];
  waiting pg_catalog.text;
  rest dbinfer._scored;
  most CONSTANT bigint := 30000000; -- results, 28 bytes each with a short label: PostgreSQL's values end at 1 GB
  smallest CONSTANT bigint := 36; -- bytes of a row in a table: its place in the page, its header and a number
BEGIN
  /* greenplum: IF pg_catalog.current_setting('gp_role') OPERATOR(pg_catalog.<>) 'dispatch' THEN
    RAISE feature_not_supported USING MESSAGE = 'dbinfer: classify_table cannot read a table from within this statement',
      HINT = 'Let it stand alone: SELECT * FROM dbinfer.classify_table(...); results go into a table with dbinfer.classify_into.';
  END IF; */
  FOR wanted, types IN VALUES (id_column, '{pg_catalog.int2,pg_catalog.int4,pg_catalog.int8}'::pg_catalog.regtype[]),
                              (img_column, '{pg_catalog.bytea}') LOOP
    SELECT a.atttypid INTO found FROM pg_catalog.pg_attribute a
     WHERE a.attrelid OPERATOR(pg_catalog.=) images::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) wanted AND NOT a.attisdropped;
    IF found IS NULL THEN
      RAISE undefined_column USING MESSAGE = pg_catalog.format('dbinfer: %s has no column "%s"',
          coalesce(images::pg_catalog.text, 'NULL'), wanted),
        HINT = 'Name its columns: dbinfer.classify_table(''images'', id_column => ''number'', img_column => ''photo'')';
    ELSIF found OPERATOR(pg_catalog.<>) ALL (types) THEN
      RAISE datatype_mismatch USING MESSAGE = pg_catalog.format('dbinfer: column "%s" of %s is of type %s, but must be %s',
        wanted, images, found, pg_catalog.array_to_string(types, ' or ')), HINT = 'Make a view that casts it, and name the view.';
    END IF;
  END LOOP;
  -- Counted where there may be more, whatever ANALYZE has seen: that reads the table once, but none of its large images.
  -- A view is not counted, which may run long; _batch stops in time.
  WITH RECURSIVE parts AS (
    SELECT images::pg_catalog.oid AS part
    UNION ALL
    SELECT h.inhrelid FROM pg_catalog.pg_inherits h JOIN parts ON h.inhparent OPERATOR(pg_catalog.=) part
  )
  SELECT greatest(pg_catalog.sum(pg_catalog.pg_relation_size(part::pg_catalog.regclass)) OPERATOR(pg_catalog./) smallest,
                  pg_catalog.sum(c.reltuples)::numeric)::bigint INTO total
    FROM parts JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) part;
  IF total OPERATOR(pg_catalog.>) most THEN
    EXECUTE pg_catalog.format('SELECT pg_catalog.count(*) FROM (SELECT FROM %s LIMIT %s) s', images, most OPERATOR(pg_catalog.+) 1) INTO total;
    IF total OPERATOR(pg_catalog.>) most THEN
      RAISE program_limit_exceeded USING MESSAGE = pg_catalog.format('dbinfer: %s has more rows than can be classified at once (%s)', images, most),
        HINT = 'Make views of its parts (WHERE id BETWEEN ...) and classify one after the other into the same table with dbinfer.classify_into.';
    END IF;
  END IF;
  EXECUTE dbinfer._batch_query(images, id_column, img_column, model, on_error) INTO total, batches, waiting;
  IF waiting OPERATOR(pg_catalog.<>) '' THEN
    EXECUTE pg_catalog.format($q$
      SELECT pg_catalog.array_agg(w.id), pg_catalog.array_agg((w.c).class), pg_catalog.array_agg((w.c).label), pg_catalog.array_agg((w.c).score)
        FROM (
          SELECT pg_catalog.split_part(r, ':', 1)::bigint AS id,
                 dbinfer.classify(CASE WHEN pg_catalog.split_part(r, ':', 2) OPERATOR(pg_catalog.<>) ''
                                       THEN pg_catalog.decode(pg_catalog.split_part(r, ':', 2), 'base64') END, %L, %L) AS c
            FROM pg_catalog.regexp_split_to_table($1, ';') r WHERE r OPERATOR(pg_catalog.<>) '' OFFSET 0) w
      $q$, model, on_error) INTO rest USING waiting;
    batches := pg_catalog.array_append(batches, rest);
  END IF;
  -- a plan that loses rows would otherwise give a shorter answer, and nobody would see it
  SELECT total OPERATOR(pg_catalog.-) coalesce(pg_catalog.sum(pg_catalog.cardinality(b.ids)), 0) INTO total
    FROM pg_catalog.unnest(batches) b;
  IF total OPERATOR(pg_catalog.<>) 0 THEN
    RAISE internal_error USING MESSAGE = pg_catalog.format('dbinfer: %s rows did not come back from their batches', total),
      HINT = 'This is a defect of dbinfer. SELECT id, dbinfer.classify(img) gives the same row by row.';
  END IF;
  RETURN batches;
END $$;
COMMENT ON FUNCTION dbinfer._batches(regclass, text, text, name, name) IS 'internal: the results of all rows of a table';
GRANT EXECUTE ON FUNCTION dbinfer._batches(regclass, text, text, name, name) TO PUBLIC;
