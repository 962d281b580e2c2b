-- Not NULL, which would be one more way to get neither an answer nor an error. It has the form of other tokens, because
-- dbinfer._resolve passes what it found for a model from a column to dbinfer._admit again. The runtime may not be loaded here.
-- Its transaction is None, so the next statement asks again.
CREATE OR REPLACE FUNCTION dbinfer_private.nobodys_ticket() RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
token = "dbinfer:0:0000000000000000"
nobody = {"transaction": None, "run": lambda self, plpy, task, *what: [] if task == "rest" else None}
GD.setdefault("dbinfer.tickets", {})[token] = type("Nobody", (), nobody)()
return token
$$;
COMMENT ON FUNCTION dbinfer_private.nobodys_ticket() IS 'the token of a ticket for which every result is NULL, on a segment that is finishing';
REVOKE ALL ON FUNCTION dbinfer_private.nobodys_ticket() FROM PUBLIC;
