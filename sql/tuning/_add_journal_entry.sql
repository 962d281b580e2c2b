-- The lock is held until the number is committed: a reader that has seen number n has seen all before it.
CREATE OR REPLACE FUNCTION dbinfer._add_journal_entry(of_study text, told jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF of_study IS NULL OR told IS NULL THEN
    RAISE null_value_not_allowed USING MESSAGE = 'an entry of the journal needs a study and a value';
  END IF;
  -- -1: under other numbers, the workers of a study hold locks of the same name
  PERFORM pg_advisory_xact_lock(hashtext('dbinfer.tune ' || of_study), -1);
  INSERT INTO dbinfer_private.tuning_journal
  SELECT of_study, coalesce(max(j.number), -1) + 1, told, now() FROM dbinfer_private.tuning_journal j WHERE j.study = of_study;
END $$;
COMMENT ON FUNCTION dbinfer._add_journal_entry(text, jsonb) IS 'internal: adds what a worker of dbinfer tune tells the others';
REVOKE ALL ON FUNCTION dbinfer._add_journal_entry(text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._add_journal_entry(text, jsonb) TO dbinfer_admin;
