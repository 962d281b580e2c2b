-- On Greenplum it stands alone in its FROM, because functions that read tables run on the coordinator only.
CREATE OR REPLACE FUNCTION dbinfer.predict_table(images regclass, model text DEFAULT NULL, on_error text DEFAULT 'error',
  id_column name DEFAULT 'id', img_column name DEFAULT 'img')
RETURNS TABLE(id bigint, "values" real[])
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 100000 COST 1000000 AS $$
SELECT t.id, t.result::pg_catalog.float4[] FROM dbinfer._table('predict', images, model, on_error, id_column, img_column) t
$$;
COMMENT ON FUNCTION dbinfer.predict_table(regclass, text, text, name, name) IS
  'first output for every row of a table, scored in batches where that is faster, e.g. SELECT * FROM dbinfer.predict_table(''images'', ''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.predict_table(regclass, text, text, name, name) TO PUBLIC;
