CREATE OR REPLACE FUNCTION dbinfer._answer(number bigint, seconds double precision, note text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.asker_oid('dbinfer request', note);
  until timestamptz := clock_timestamp() + coalesce(seconds, 0) * interval '1 second';
  pause double precision := 0.001;
  waiting boolean := true;
  a record;
BEGIN
  LOOP
    SELECT w.result, w.problem INTO a FROM dbinfer_private.answer w WHERE w.id = number AND w.role_oid = caller::bigint;
    IF FOUND THEN
      IF a.problem IS NOT NULL THEN
        RAISE invalid_binary_representation USING MESSAGE = 'dbinfer: ' || a.problem;
      END IF;
      RETURN a.result;
    ELSIF NOT waiting THEN
      RAISE undefined_object USING MESSAGE = format('there is no request %s of yours', coalesce(number::text, 'NULL')),
        HINT = 'Answers are kept for an hour. Ask again: SELECT dbinfer.request(img)';
    -- looked for after the answer, and if it is gone then once more: a worker has answered in between
    ELSIF NOT EXISTS (SELECT 1 FROM dbinfer_private.request r WHERE r.id = number AND r.role_oid = caller::bigint) THEN
      waiting := false;
      CONTINUE;
    /* postgresql: ELSIF EXISTS (SELECT 1 FROM dbinfer_private.request r WHERE r.id = number AND r.xmin::text::bigint = txid_current() % 4294967296) THEN
      RAISE object_not_in_prerequisite_state USING MESSAGE = format('request %s was made in this transaction, and no worker sees it yet', number),
        HINT = 'Commit first: dbinfer.request and dbinfer.answer are two statements.'; */
    ELSIF clock_timestamp() > until THEN
      RETURN NULL;
    END IF;
    -- a twentieth of the time so far, which is how much later than it could a caller hears of an answer
    PERFORM pg_sleep(pause);
    pause := least(pause * 1.05, 0.05);
  END LOOP;
END $$;
COMMENT ON FUNCTION dbinfer._answer(bigint, double precision, text) IS 'internal: waits for the answer to a request; call dbinfer.answer';
GRANT EXECUTE ON FUNCTION dbinfer._answer(bigint, double precision, text) TO PUBLIC;
