-- dbinfer.estimate before 0.9.0, which kept no answers: what users had made with it holds on to it under this name.
CREATE OR REPLACE FUNCTION dbinfer._estimate_rows(images regclass, answer text, within double precision DEFAULT 0.01,
  confidence double precision DEFAULT 0.95, "by" text DEFAULT NULL, proxy text DEFAULT NULL, id_column name DEFAULT 'id')
RETURNS TABLE(part text, estimate double precision, low double precision, high double precision, unknown double precision,
  scored bigint, rows bigint) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10 COST 1000000 AS $$
BEGIN
  RETURN QUERY SELECT e.* FROM dbinfer.estimate(images, answer, within, confidence, "by", proxy, id_column) e;
END $$;
COMMENT ON FUNCTION dbinfer._estimate_rows(regclass, text, double precision, double precision, text, text, name) IS 'internal: dbinfer.estimate in views that were made before 0.9.0';
GRANT EXECUTE ON FUNCTION dbinfer._estimate_rows(regclass, text, double precision, double precision, text, text, name) TO PUBLIC;
