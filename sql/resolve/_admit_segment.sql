-- On a segment: admits the caller to the token that dbinfer._here has just noted. `empty` depends on the row, so that the
-- planner does not fold the call on the coordinator.
CREATE OR REPLACE FUNCTION dbinfer._admit_segment(empty boolean) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  token text := dbinfer_private.pending();
BEGIN
  RETURN dbinfer._admit(token, token);
END $$;
COMMENT ON FUNCTION dbinfer._admit_segment(boolean) IS 'internal: admits the caller to the token that the coordinator resolved';
ALTER FUNCTION dbinfer._admit_segment(boolean) OWNER TO dbinfer_owner;
GRANT EXECUTE ON FUNCTION dbinfer._admit_segment(boolean) TO PUBLIC;
