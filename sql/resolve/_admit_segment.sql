CREATE OR REPLACE FUNCTION dbinfer._admit_segment(note text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN dbinfer._admit(NULL, note, dbinfer_private.wanted());
END $$;
COMMENT ON FUNCTION dbinfer._admit_segment(text) IS 'internal: on a segment, admits the caller to the token that the coordinator resolved';
GRANT EXECUTE ON FUNCTION dbinfer._admit_segment(text) TO PUBLIC;
