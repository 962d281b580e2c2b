-- Greenplum runs parts of some plans in a second process of the coordinator, in which the registry's tables have no rows:
-- the dispatcher has left there what it resolved when it planned the statement (udf/dbinfer_udf/session/handover.py).
CREATE OR REPLACE FUNCTION dbinfer_private.take_ticket(caller oid, model text, token text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED AS $$
DECLARE
  digest text := dbinfer_private.left_digest();
  taken text;
BEGIN
  -- raises where it does not have the form of a token: its end becomes the name of a file
  PERFORM dbinfer_private.token_version(token);
  IF digest IS NOT NULL THEN
    IF dbinfer_private.need_runtime(digest) THEN
      PERFORM dbinfer_private.feed_left_runtime();
      PERFORM dbinfer_private.start_runtime(digest);
    END IF;
    IF dbinfer_private.finishing() THEN
      RETURN dbinfer_private.nobodys_ticket();
    END IF;
    taken := dbinfer_private.left_ticket(caller, model, token);
  END IF;
  IF taken IS NULL THEN
    PERFORM dbinfer_private.raise_not_left(model, token, digest IS NULL);
  END IF;
  RETURN taken;
END $$;
COMMENT ON FUNCTION dbinfer_private.take_ticket(oid, text, text) IS 'on the coordinator''s reader process: the token under which it scores what the dispatcher has resolved';
REVOKE ALL ON FUNCTION dbinfer_private.take_ticket(oid, text, text) FROM PUBLIC;
