-- The lock is held until the number is committed: a reader that has seen number n has seen all before it.
CREATE OR REPLACE FUNCTION dbinfer._add_journal_entry(of_study text, told jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF of_study IS NULL OR told IS NULL THEN
    RAISE null_value_not_allowed USING MESSAGE = 'an entry of the journal needs a study and a value';
  END IF;
  -- read as dbinfer.trials reads it, which one entry must not break for all
  BEGIN
    PERFORM (told->>'op_code')::integer, (told->>'trial_id')::bigint, (told->>'datetime_start')::timestamptz,
            (told->>'datetime_complete')::timestamptz, (told->'values'->>0)::double precision, (told->>'state')::integer,
            CASE WHEN (told->>'distribution')::jsonb->>'name' = 'CategoricalDistribution'
                 THEN (told->>'param_value_internal')::numeric::integer END;
    IF (told->>'op_code' = '5' AND told->>'param_name' IS NULL) OR (told->>'op_code' = '7' AND told->>'step' IS NULL)
       OR told->>'op_code' IS NULL OR told->>'state' NOT IN ('0', '1', '2', '3', '4') THEN
      RAISE data_exception USING MESSAGE = 'a key is missing';
    END IF;
  EXCEPTION WHEN data_exception THEN
    RAISE data_exception USING MESSAGE = format('an entry of the journal makes no sense: %s', SQLERRM), HINT = 'Use: dbinfer tune';
  END;
  -- -1: under other numbers, the workers of a study hold locks of the same name
  PERFORM pg_advisory_xact_lock(hashtext('dbinfer.tune ' || of_study), -1);
  INSERT INTO dbinfer_private.tuning_journal
  SELECT of_study, coalesce(max(j.number), -1) + 1, told, now() FROM dbinfer_private.tuning_journal j WHERE j.study = of_study;
END $$;
COMMENT ON FUNCTION dbinfer._add_journal_entry(text, jsonb) IS 'internal: adds an entry of a worker of dbinfer tune for the others';
REVOKE ALL ON FUNCTION dbinfer._add_journal_entry(text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._add_journal_entry(text, jsonb) TO dbinfer_admin;
