-- On Greenplum it stands alone in its FROM, because functions that read tables run on the coordinator only.
-- The planner inlines it: LANGUAGE sql STABLE, not STRICT, no SET.
CREATE OR REPLACE FUNCTION dbinfer.classify_table(images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS TABLE(id bigint, class integer, label text, score real)
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000 AS $$
SELECT s.id, (s.c).class, (s.c).label, (s.c).score
  FROM (SELECT t.id, t.result::dbinfer.classification AS c
          FROM dbinfer._table('classify', images, model, on_error, id_column, img_column) t OFFSET 0) s
$$;
COMMENT ON FUNCTION dbinfer.classify_table(regclass, text, text, name, name) IS
  'best class of every row of a table, scored in batches where that is faster, e.g. SELECT * FROM dbinfer.classify_table(''images'', ''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.classify_table(regclass, text, text, name, name) TO PUBLIC;
