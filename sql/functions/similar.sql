-- On Greenplum it stands alone in its FROM, because functions that read tables run on the coordinator only; each segment sorts
-- what it holds and hands over the k nearest.
CREATE OR REPLACE FUNCTION dbinfer.similar(images regclass, img bytea, model text DEFAULT NULL, k integer DEFAULT 10,
  on_error text DEFAULT 'error', id_column name DEFAULT 'id', source_column name DEFAULT NULL)
RETURNS TABLE(id bigint, distance double precision) LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10 COST 1000000 AS $$
DECLARE
  wanted pg_catalog.float4[];
  doing pg_catalog.text := pg_catalog.format('dbinfer.similar was reading %s.', images);
  told pg_catalog.text;
  hinted pg_catalog.text;
BEGIN
  wanted := dbinfer.embed(img, model, on_error);
  IF k IS NULL OR k OPERATOR(pg_catalog.<) 1 THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: k is %s, but must be 1 or more', coalesce(k::pg_catalog.text, 'NULL'));
  ELSIF wanted IS NULL THEN
    RETURN;
  END IF;
  -- What has no distance (a bad image, an embedding of zeros) comes last, and is left out
  RETURN QUERY EXECUTE pg_catalog.format('SELECT n.id, n.distance FROM (SELECT s.id, %s AS distance FROM (%s) s ORDER BY distance LIMIT %s) n
     WHERE n.distance OPERATOR(pg_catalog.<) ''Infinity''::pg_catalog.float8',
    dbinfer._distance('s.e', '$1' OPERATOR(pg_catalog.||) dbinfer._vector_cast(pg_catalog.cardinality(wanted))),
    dbinfer._embeddings(images, model, on_error, id_column, source_column, pg_catalog.cardinality(wanted)), k) USING wanted;
-- include shared/raise_again.sql
END $$;
COMMENT ON FUNCTION dbinfer.similar(regclass, bytea, text, integer, text, name, name) IS
  'the k rows most like an image, nearest first, from a table of embeddings or of images, e.g. SELECT * FROM dbinfer.similar(''embeddings'', (SELECT img FROM images WHERE id = 1), ''features'', 5)';
GRANT EXECUTE ON FUNCTION dbinfer.similar(regclass, bytea, text, integer, text, name, name) TO PUBLIC;
