CREATE OR REPLACE FUNCTION dbinfer_private.asker_oid(subject text, note text) RETURNS oid
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker(subject, note);
BEGIN
  RETURN (SELECT r.oid FROM pg_roles r WHERE r.rolname = who);
END $$;
COMMENT ON FUNCTION dbinfer_private.asker_oid(text, text) IS 'the oid of dbinfer_private.asker';
REVOKE ALL ON FUNCTION dbinfer_private.asker_oid(text, text) FROM PUBLIC;
