-- Whether the key of a table is of whole numbers; an error where there is none.
CREATE OR REPLACE FUNCTION dbinfer._numbered(images regclass, id_column name) RETURNS boolean LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  kind pg_catalog.oid := (SELECT a.atttypid FROM pg_catalog.pg_attribute a
    WHERE a.attrelid OPERATOR(pg_catalog.=) images::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) id_column
      AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped);
BEGIN
  IF kind IS NULL THEN
    RAISE undefined_column USING MESSAGE = pg_catalog.format('dbinfer: %s has no column "%s"', coalesce(images::pg_catalog.text, 'NULL'), id_column),
      HINT = 'Name its key: id_column => ''number''.';
  END IF;
  RETURN kind OPERATOR(pg_catalog.=) ANY ('{int2,int4,int8}'::pg_catalog.regtype[]::pg_catalog.oid[]);
END $$;
COMMENT ON FUNCTION dbinfer._numbered(regclass, name) IS 'internal: whether the key of a table is of whole numbers';
GRANT EXECUTE ON FUNCTION dbinfer._numbered(regclass, name) TO PUBLIC;
