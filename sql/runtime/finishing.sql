-- Where Greenplum's coordinator has all the rows it needs (LIMIT, EXISTS, a cursor that closes), it tells the segments that still work
-- to finish. From then on no query of a function there gives a row, not even this one, and PERFORM calls nothing; no error says so,
-- and expressions go on as ever. So "not found" means nothing there, and a check by PERFORM has checked nothing. Nobody waits for
-- that segment's rows any more: NULL is the right answer. Once told, a statement stays told: whoever asks here AFTER his queries
-- knows that all of them were answered.
CREATE OR REPLACE FUNCTION dbinfer_private.finishing() RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  /* greenplum: IF current_setting('gp_role') = 'execute' THEN
    PERFORM 1;
    RETURN NOT FOUND;
  END IF; */
  RETURN false;
END $$;
COMMENT ON FUNCTION dbinfer_private.finishing() IS 'whether this is a segment that was told to finish, where queries find nothing: ask after them, and before concluding from what they found or did not find';
REVOKE ALL ON FUNCTION dbinfer_private.finishing() FROM PUBLIC;
