-- The query (id, e) for the embeddings of a table: stored ones, or those of its images; e is a vector where pgvector is there,
-- else real[]. What it does not find is an error. All names are the caller's and go through %I, %L or regclass; so is the condition,
-- which was checked to be one, and runs with the rights of the caller, as this does.
CREATE OR REPLACE FUNCTION dbinfer._embeddings(images regclass, model text, on_error text, id_column name, source_column name, dimensions integer,
  any_key boolean DEFAULT false, condition text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql STABLE PARALLEL UNSAFE AS $$
DECLARE
  types pg_catalog.jsonb;
  chosen pg_catalog.name;
  kind pg_catalog.text;
  made_by pg_catalog.text;
  numbered pg_catalog.bool := dbinfer._numbered(images, id_column);
  key pg_catalog.text := pg_catalog.format(CASE WHEN any_key THEN '%I' ELSE '%I::bigint' END, id_column);
  fulfilled pg_catalog.text;
  there integer;
BEGIN
  /* greenplum: IF pg_catalog.current_setting('gp_role') OPERATOR(pg_catalog.<>) 'dispatch' THEN
    RAISE feature_not_supported USING MESSAGE = 'dbinfer: a table cannot be searched from within this statement',
      HINT = 'Let the function stand alone: SELECT * FROM dbinfer.similar(...)';
  END IF; */
  made_by := coalesce(dbinfer._embedded_by(images, model), 'true');
  SELECT pg_catalog.json_object_agg(a.attname, t.typname) INTO types
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
   WHERE a.attrelid OPERATOR(pg_catalog.=) images::pg_catalog.oid AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped;
  chosen := coalesce(source_column, CASE WHEN types OPERATOR(pg_catalog.?) 'embedding' THEN 'embedding' ELSE 'img' END);
  kind := types OPERATOR(pg_catalog.->>) chosen::pg_catalog.text;
  fulfilled := coalesce(dbinfer._condition(images, condition), 'true');
  IF NOT numbered AND NOT any_key THEN
    RAISE undefined_column USING MESSAGE = pg_catalog.format('dbinfer: %s has no column "%s" of whole numbers', images, id_column),
      HINT = 'Name its key: id_column => ''number''. Of other keys make numbers in a view.';
  ELSIF coalesce(kind, '') OPERATOR(pg_catalog.<>) ALL ('{_float4,_float8,vector,halfvec,bytea}'::pg_catalog.text[])
      OR kind OPERATOR(pg_catalog.=) 'bytea' AND dimensions IS NULL THEN
    RAISE undefined_column USING MESSAGE = pg_catalog.format('dbinfer: %s has no column "%s" of embeddings%s', images, chosen,
        CASE WHEN dimensions IS NOT NULL THEN ' or images' END), HINT = 'Name one with source_column => ''features''; its type is real[] or vector.';
  ELSIF kind OPERATOR(pg_catalog.=) 'bytea' THEN
    -- as dbinfer.embed, which does not know the row
    RETURN pg_catalog.format('SELECT %1$s AS id, dbinfer._text_of_row(''embed'', %7$s, %2$I, dbinfer._resolve(%3$L, %2$I IS NULL), %4$L)::pg_catalog.float4[]%5$s AS e FROM %6$s WHERE %8$s',
      key, chosen, model, on_error, dbinfer._vector_cast(dimensions), images,
      CASE WHEN numbered THEN key ELSE 'NULL' END, fulfilled);
  END IF;
  there := dbinfer._embedding_size(images, chosen, made_by, model);
  IF there OPERATOR(pg_catalog.<>) dimensions THEN
    RAISE data_exception USING MESSAGE = pg_catalog.format('dbinfer: the embeddings of %s have %s values, but the one looked for has %s', images,
      there, dimensions), HINT = 'Name the model that made them, or give an embedding of their length.';
  END IF;
  RETURN pg_catalog.format('SELECT %s AS id, %I%s AS e FROM %s WHERE %2$I IS NOT NULL AND %5$s AND %6$s', key, chosen,
    dbinfer._vector_cast(coalesce(dimensions, there)), images, made_by, fulfilled);
END $$;
COMMENT ON FUNCTION dbinfer._embeddings(regclass, text, text, name, name, integer, boolean, text) IS 'internal: the statement that reads the embeddings of a table';
GRANT EXECUTE ON FUNCTION dbinfer._embeddings(regclass, text, text, name, name, integer, boolean, text) TO PUBLIC;
