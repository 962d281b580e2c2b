-- What a caller writes after WHERE is SQL of his own and runs with his rights. It is tried on no row first, by itself: so it is one
-- condition and no second statement (which a cursor refuses), and whatever is wrong with it is told as that. The line ends a comment in it.
CREATE OR REPLACE FUNCTION dbinfer._condition(images regclass, condition text) RETURNS text LANGUAGE plpgsql STABLE PARALLEL UNSAFE AS $$
DECLARE
  wrapped pg_catalog.text := pg_catalog.format(E'(%s\n)', condition);
  nothing record;
BEGIN
  IF condition IS NULL THEN
    RETURN NULL;
  END IF;
  FOR nothing IN EXECUTE pg_catalog.format('SELECT 1 FROM %s WHERE %s LIMIT 0', images, wrapped) LOOP
    NULL;
  END LOOP;
  RETURN wrapped;
EXCEPTION WHEN syntax_error_or_access_rule_violation OR data_exception OR feature_not_supported THEN
  RAISE USING ERRCODE = SQLSTATE, MESSAGE = pg_catalog.format('dbinfer: the condition %L cannot be used: %s', condition, SQLERRM),
    HINT = pg_catalog.format('Write what could follow SELECT * FROM %s WHERE.', images);
END $$;
COMMENT ON FUNCTION dbinfer._condition(regclass, text) IS 'internal: a condition on the rows of a table, once it is known to be one; call dbinfer.similar';
GRANT EXECUTE ON FUNCTION dbinfer._condition(regclass, text) TO PUBLIC;
