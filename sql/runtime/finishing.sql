-- Where Greenplum's coordinator has all the rows it needs (LIMIT, EXISTS, a cursor that closes), it asks the segments that still work
-- to finish. From then on no query of a function there returns a row, not even this one, and PERFORM calls nothing; there is no error,
-- and expressions work as before. So "not found" means nothing there, and a check by PERFORM has checked nothing. Rows of that
-- segment are no longer used: NULL is the right answer. A statement that was asked to finish stays so: a function that asks here
-- AFTER its queries knows whether all of them were answered.
CREATE OR REPLACE FUNCTION dbinfer_private.finishing() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  /* greenplum: IF current_setting('gp_role') = 'execute' THEN
    PERFORM 1;
    RETURN NOT FOUND;
  END IF; */
  RETURN false;
END $$;
COMMENT ON FUNCTION dbinfer_private.finishing() IS 'whether this segment was asked to finish early, where queries find nothing; check it after a query and before relying on what that found';
REVOKE ALL ON FUNCTION dbinfer_private.finishing() FROM PUBLIC;
