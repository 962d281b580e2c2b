-- No NULL in place of the token: that would be one more way to get no answer and no error. Of the form of other tokens, because
-- dbinfer._resolve asks dbinfer._admit again for what it has found for a model from a column. The runtime may not be loaded here. Its transaction is none: the next statement asks anew.
CREATE OR REPLACE FUNCTION dbinfer_private.nobodys_ticket() RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
token = "dbinfer:0:0000000000000000"
nobody = {"transaction": None, "run": lambda self, plpy, task, *what: [] if task == "rest" else None}
GD.setdefault("dbinfer.tickets", {})[token] = type("Nobody", (), nobody)()
return token
$$;
COMMENT ON FUNCTION dbinfer_private.nobodys_ticket() IS 'the token of a ticket for which every result is NULL, on a segment that is finishing';
REVOKE ALL ON FUNCTION dbinfer_private.nobodys_ticket() FROM PUBLIC;
