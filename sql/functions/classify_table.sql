-- On Greenplum it stands alone in its FROM, because functions that read tables run on the coordinator only.
CREATE OR REPLACE FUNCTION dbinfer.classify_table(images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS TABLE(id bigint, class integer, label text, score real)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000 AS $$
DECLARE
  batches dbinfer._scored[] := dbinfer._batches(images, model, on_error, id_column, img_column);
BEGIN
  -- the four are equally long, and in one SELECT list they advance together
  RETURN QUERY SELECT pg_catalog.unnest(b.ids), pg_catalog.unnest(b.classes), pg_catalog.unnest(b.labels), pg_catalog.unnest(b.scores)
    FROM pg_catalog.unnest(batches) b;
END $$;
COMMENT ON FUNCTION dbinfer.classify_table(regclass, text, text, name, name) IS 'best class of every row of a table, scored in batches, e.g. SELECT * FROM dbinfer.classify_table(''images'', ''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.classify_table(regclass, text, text, name, name) TO PUBLIC;
