CREATE OR REPLACE FUNCTION dbinfer_private.raise_not_left(model text, token text, nothing boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED AS $$
BEGIN
  IF token IS NULL THEN
    RAISE feature_not_supported USING
      MESSAGE = format('dbinfer: %s cannot be looked up in the coordinator''s reader process',
                       CASE WHEN model IS NULL THEN 'the default model' ELSE format('model "%s"', model) END),
      DETAIL = 'Greenplum runs this part of the plan in a second process of the coordinator, which cannot read the '
        'registry, and the planner did not see the model''s name: a function hides it, or it is not a constant.',
      HINT = 'Put the rows into a table first (CREATE TEMP TABLE few AS SELECT ... LIMIT 3) and score that table, or show '
        'the planner the name: use a function in LANGUAGE sql without STRICT, SECURITY DEFINER and SET.';
  ELSIF nothing THEN
    RAISE io_error USING
      MESSAGE = 'dbinfer: the coordinator''s reader process found nothing that the dispatcher left for it',
      HINT = 'Make room in the coordinator''s data directory: its folder dbinfer_entry could not be written.';
  END IF;
  RAISE invalid_parameter_value USING MESSAGE = 'dbinfer: this model token belongs to another user or transaction',
    HINT = 'Run the statement again.';
END $$;
COMMENT ON FUNCTION dbinfer_private.raise_not_left(text, text, boolean) IS 'raises why the coordinator''s reader process has no ticket';
REVOKE ALL ON FUNCTION dbinfer_private.raise_not_left(text, text, boolean) FROM PUBLIC;
