-- A column of text has references (see dbinfer.image), which are fetched while the rows before them are scored; one of oid has large
-- objects, which the server itself reads.
CREATE OR REPLACE FUNCTION dbinfer._image_of(images regclass, img_column name, on_error text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT CASE WHEN a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.bytea'::pg_catalog.regtype::pg_catalog.oid THEN pg_catalog.format('%I', img_column)
            WHEN a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.oid'::pg_catalog.regtype::pg_catalog.oid THEN pg_catalog.format('pg_catalog.lo_get(%I)', img_column)
            ELSE pg_catalog.format('dbinfer._fetch_ahead(%1$I::pg_catalog.text, dbinfer._resolve('''', %1$I IS NULL), %2$L)', img_column, on_error) END
  FROM pg_catalog.pg_attribute a
 WHERE a.attrelid OPERATOR(pg_catalog.=) images::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) img_column AND NOT a.attisdropped
$$;
COMMENT ON FUNCTION dbinfer._image_of(regclass, name, text) IS 'internal: the expression of a table''s images for _take';
GRANT EXECUTE ON FUNCTION dbinfer._image_of(regclass, name, text) TO PUBLIC;
