-- On Greenplum it stands alone in its FROM, because functions that read tables run on the coordinator only; each segment sorts
-- what it holds and hands over the k nearest.
CREATE OR REPLACE FUNCTION dbinfer.similar(images regclass, img bytea DEFAULT NULL, model text DEFAULT NULL, k integer DEFAULT 10,
  on_error text DEFAULT 'error', id_column name DEFAULT 'id', source_column name DEFAULT NULL, embedding real[] DEFAULT NULL,
  condition text DEFAULT NULL, text text DEFAULT NULL)
RETURNS TABLE(id bigint, distance double precision, key text) LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10 COST 1000000 AS $$
DECLARE
  wanted pg_catalog.float4[] := embedding;
  searched pg_catalog.text;
  iterated pg_catalog.bool := condition IS NOT NULL AND dbinfer._iterates(images);
  before pg_catalog.text[];
  doing pg_catalog.text := pg_catalog.format('dbinfer.similar was reading %s.', images);
  told pg_catalog.text;
  hinted pg_catalog.text;
BEGIN
  IF k IS NULL OR k OPERATOR(pg_catalog.<) 1 THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: k is %s, but must be 1 or more', coalesce(k::pg_catalog.text, 'NULL'));
  ELSIF img IS NOT NULL AND embedding IS NOT NULL OR text IS NOT NULL AND coalesce(embedding::pg_catalog.text, img::pg_catalog.text) IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'dbinfer: similar finds what is like an image, an embedding or a text, but has got several';
  ELSIF text IS NOT NULL THEN
    wanted := dbinfer.embed_text(text, model, on_error);
  ELSIF embedding IS NULL THEN
    wanted := dbinfer.embed(img, model, on_error);
  END IF;
  IF wanted IS NULL THEN
    RETURN;
  END IF;
  searched := dbinfer._nearest(
    dbinfer._distance('s.e', '$1' OPERATOR(pg_catalog.||) dbinfer._vector_cast(pg_catalog.cardinality(wanted))),
    dbinfer._embeddings(images, model, on_error, id_column, source_column, pg_catalog.cardinality(wanted), true, condition),
    k, dbinfer._numbered(images, id_column), condition IS NULL, iterated);
  IF iterated THEN
    before := dbinfer._iterate(NULL);
  END IF;
  RETURN QUERY EXECUTE searched USING wanted;
  IF iterated THEN
    PERFORM dbinfer._iterate(before);
  END IF;
-- include shared/raise_again.sql
END $$;
COMMENT ON FUNCTION dbinfer.similar(regclass, bytea, text, integer, text, name, name, real[], text, text) IS
  'the k rows most like an image, a text or an embedding, nearest first, from a table of embeddings or of images; text: words, for a model with a tower for texts; embedding: in place of an image, needs no model; condition: only rows for which it holds, as after WHERE, read with the caller''s rights; key: the key as text, whatever its type; id: the same as a number, NULL where it is none, e.g. SELECT * FROM dbinfer.similar(''embeddings'', (SELECT img FROM images WHERE id = 1), ''features'', 5, condition => ''id > 1'')';
GRANT EXECUTE ON FUNCTION dbinfer.similar(regclass, bytea, text, integer, text, name, name, real[], text, text) TO PUBLIC;
