-- On Greenplum it stands alone in its FROM, because functions that read tables run on the coordinator only.
CREATE OR REPLACE FUNCTION dbinfer.detect_table(images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS TABLE(id bigint, detections dbinfer.detection[])
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000 AS $$
SELECT t.id, t.result::dbinfer.detection[] FROM dbinfer._table('detect', images, model, on_error, id_column, img_column) t
$$;
COMMENT ON FUNCTION dbinfer.detect_table(regclass, text, text, name, name) IS
  'objects in every row of a table, scored in batches where that is faster, e.g. SELECT * FROM dbinfer.detect_table(''images'', ''finder'')';
GRANT EXECUTE ON FUNCTION dbinfer.detect_table(regclass, text, text, name, name) TO PUBLIC;
