-- dbinfer.similar before 0.6.0, which found images alone: what users had made with it holds on to it under this name.
CREATE OR REPLACE FUNCTION dbinfer._similar_to_image(images regclass, img bytea, model text DEFAULT NULL, k integer DEFAULT 10,
  on_error text DEFAULT 'error', id_column name DEFAULT 'id', source_column name DEFAULT NULL)
RETURNS TABLE(id bigint, distance double precision) LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 10 COST 1000000 AS $$
BEGIN
  RETURN QUERY SELECT s.id, s.distance FROM dbinfer.similar(images, img, model, k, on_error, id_column, source_column) s;
END $$;
COMMENT ON FUNCTION dbinfer._similar_to_image(regclass, bytea, text, integer, text, name, name) IS 'internal: dbinfer.similar in views that were made before 0.6.0';
GRANT EXECUTE ON FUNCTION dbinfer._similar_to_image(regclass, bytea, text, integer, text, name, name) TO PUBLIC;
