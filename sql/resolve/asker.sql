-- For functions with their owner's rights: current_user is the owner there, and session_user is not the acting role after
-- SET ROLE or within a SECURITY DEFINER function.
CREATE OR REPLACE FUNCTION dbinfer_private.asker(subject text, note text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.caller(subject, note);
  name text;
BEGIN
  SELECT r.rolname INTO name FROM pg_roles r WHERE r.oid = caller;
  IF name IS NULL THEN
    RAISE insufficient_privilege USING MESSAGE = format('this call of %s does not say who asks', subject),
      HINT = 'Functions whose names begin with _ are internal.';
  END IF;
  RETURN name;
END $$;
COMMENT ON FUNCTION dbinfer_private.asker(text, text) IS 'the name of the role that dbinfer._ask noted for this subject, once; raises without its note';
REVOKE ALL ON FUNCTION dbinfer_private.asker(text, text) FROM PUBLIC;
