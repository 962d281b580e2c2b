CREATE OR REPLACE FUNCTION dbinfer.set_alias(model text, alias text, version integer)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  IF alias IS NULL OR alias !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$' THEN
    RAISE invalid_name USING MESSAGE = format('%L is not a valid alias', alias),
      HINT = 'An alias starts with a letter and has only letters, digits, _ . and -.';
  END IF;
  PERFORM dbinfer_private.require_model(model, false, version);
  DELETE FROM dbinfer_private.alias a WHERE a.model = set_alias.model AND a.alias = set_alias.alias;
  INSERT INTO dbinfer_private.alias VALUES (set_alias.model, set_alias.alias, set_alias.version);
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.set_alias(text, text, integer) IS
  'gives a version an alias, by which calls can name it: digits@production, e.g. SELECT dbinfer.set_alias(''digits'', ''production'', 2)';
REVOKE ALL ON FUNCTION dbinfer.set_alias(text, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.set_alias(text, text, integer) TO dbinfer_admin;
