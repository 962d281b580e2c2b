CREATE OR REPLACE FUNCTION dbinfer.drop_alias(model text, alias text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.lock_registry();
  DELETE FROM dbinfer_private.alias a WHERE a.model = drop_alias.model AND a.alias = drop_alias.alias;
  IF NOT FOUND THEN
    RAISE undefined_object USING MESSAGE = format('model "%s" has no alias "%s"', model, alias),
      HINT = 'To list aliases: SELECT name, aliases FROM dbinfer.models';
  END IF;
  PERFORM dbinfer_private.forget();
END $$;
COMMENT ON FUNCTION dbinfer.drop_alias(text, text) IS
  'removes an alias of a model, e.g. SELECT dbinfer.drop_alias(''digits'', ''candidate'')';
REVOKE ALL ON FUNCTION dbinfer.drop_alias(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer.drop_alias(text, text) TO dbinfer_admin;
