-- Whoever has the request's token answers, and once: the request is gone then.
CREATE OR REPLACE FUNCTION dbinfer._give_answer(number bigint, claim text, result text, problem text, took double precision, note text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.asker_oid('dbinfer worker', note);
  at timestamptz := clock_timestamp();
  r record;
BEGIN
  SELECT * INTO r FROM dbinfer_private.request q WHERE q.id = number AND q.token = claim /* postgresql: FOR UPDATE */;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM dbinfer_private.request q WHERE q.id = number;
  INSERT INTO dbinfer_private.answer VALUES (number, r.role_oid, result, problem, at);
  PERFORM dbinfer_private.count_scored(r.role_oid::oid, r.version_id, 1, took);
  RETURN true;
END $$;
COMMENT ON FUNCTION dbinfer._give_answer(bigint, text, text, text, double precision, text) IS 'internal: a worker''s answer to a request; false where another worker has it';
GRANT EXECUTE ON FUNCTION dbinfer._give_answer(bigint, text, text, text, double precision, text) TO PUBLIC;
