-- Its input comes from a client that need not be ours.
CREATE OR REPLACE FUNCTION dbinfer._add_version(model_name text, facts jsonb, activate boolean, note text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  author text := dbinfer_private.asker('dbinfer deploy', note);
BEGIN
  IF (model_name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$') IS NOT TRUE THEN
    RAISE invalid_name USING MESSAGE = format('%L is not a valid model name', model_name),
      HINT = 'A name starts with a letter and has at most 63 letters, digits, _ . and -.';
  END IF;
  PERFORM dbinfer_private.check_facts(facts);
  IF facts ? 'text' THEN
    PERFORM dbinfer_private.check_facts(facts->'text');
  END IF;
  PERFORM dbinfer_private.lock_registry();
  RETURN dbinfer_private.add_version(model_name, facts, coalesce(activate, false), author);
END $$;
COMMENT ON FUNCTION dbinfer._add_version(text, jsonb, boolean, text) IS 'internal: registers a version whose parts are stored, and activates it where asked';
REVOKE ALL ON FUNCTION dbinfer._add_version(text, jsonb, boolean, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._add_version(text, jsonb, boolean, text) TO dbinfer_admin;
