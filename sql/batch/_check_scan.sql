-- Says what is wrong with a call before anything is scored.
CREATE OR REPLACE FUNCTION dbinfer._check_scan(function text, images regclass, id_column name, img_column name) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  wanted pg_catalog.name;
  types pg_catalog.regtype[];
  found pg_catalog.regtype;
BEGIN
  /* greenplum: IF pg_catalog.current_setting('gp_role') OPERATOR(pg_catalog.<>) 'dispatch' THEN
    RAISE feature_not_supported USING MESSAGE = pg_catalog.format('dbinfer: %s_table cannot read a table from within this statement', function),
      HINT = pg_catalog.format('Let it stand alone: SELECT * FROM dbinfer.%1$s_table(...); results go into a table with dbinfer.%1$s_into.', function);
  END IF; */
  FOR wanted, types IN VALUES (id_column, '{pg_catalog.int2,pg_catalog.int4,pg_catalog.int8}'::pg_catalog.regtype[]),
                              (img_column, '{pg_catalog.bytea,pg_catalog.text,pg_catalog.varchar,pg_catalog.oid}') LOOP
    SELECT a.atttypid INTO found FROM pg_catalog.pg_attribute a
     WHERE a.attrelid OPERATOR(pg_catalog.=) images::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) wanted AND NOT a.attisdropped;
    IF found IS NULL THEN
      RAISE undefined_column USING MESSAGE = pg_catalog.format('dbinfer: %s has no column "%s"',
          coalesce(images::pg_catalog.text, 'NULL'), wanted),
        HINT = pg_catalog.format('Name its columns: dbinfer.%s_table(''images'', id_column => ''number'', img_column => ''photo'')', function);
    ELSIF found OPERATOR(pg_catalog.<>) ALL (types) THEN
      RAISE datatype_mismatch USING MESSAGE = pg_catalog.format('dbinfer: column "%s" of %s is of type %s, but must be %s',
        wanted, images, found, pg_catalog.array_to_string(types, ' or ')), HINT = 'Make a view that casts it, and name the view.';
    END IF;
  END LOOP;
END $$;
COMMENT ON FUNCTION dbinfer._check_scan(text, regclass, name, name) IS 'internal: raises where a table cannot be scored';
GRANT EXECUTE ON FUNCTION dbinfer._check_scan(text, regclass, name, name) TO PUBLIC;
