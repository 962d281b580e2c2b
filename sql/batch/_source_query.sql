-- Where the results of dbinfer._into come from. A statement that writes has no parallel workers on PostgreSQL, so it reads what
-- dbinfer._table returns; on a cluster the segments write what they have scored.
CREATE OR REPLACE FUNCTION dbinfer._source_query(scan text, function text, images regclass, model text, on_error text, id_column name, img_column name)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT coalesce(/* greenplum: dbinfer._scan_query(scan, function, images, model, on_error, id_column, img_column), */
                pg_catalog.format('SELECT t.id, t.result, t.file FROM dbinfer._table(%L, %L, %L, %L, %L, %L) t',
                                  function, images, model, on_error, id_column, img_column))
$$;
COMMENT ON FUNCTION dbinfer._source_query(text, text, regclass, text, text, name, name) IS 'internal: the query whose rows go into a table of results';
GRANT EXECUTE ON FUNCTION dbinfer._source_query(text, text, regclass, text, text, name, name) TO PUBLIC;
