-- On Greenplum it stands alone in its FROM, because functions that read tables run on the coordinator only.
CREATE OR REPLACE FUNCTION dbinfer.segment_table(images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS TABLE(id bigint, mask bytea)
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000 AS $$
SELECT t.id, t.file FROM dbinfer._table('segment', images, model, on_error, id_column, img_column) t
$$;
COMMENT ON FUNCTION dbinfer.segment_table(regclass, text, text, name, name) IS
  'mask of every row of a table, computed in batches where that is faster, e.g. SELECT * FROM dbinfer.segment_table(''images'', ''strokes'')';
GRANT EXECUTE ON FUNCTION dbinfer.segment_table(regclass, text, text, name, name) TO PUBLIC;
