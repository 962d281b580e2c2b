CREATE OR REPLACE FUNCTION dbinfer_private.caller(model text, note text) RETURNS oid
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
# pop, whether it fits or not: a note counts once
noted = GD.pop("dbinfer.note", None)
return noted[2] if noted is not None and noted[:2] == (note, model) else None
$$;
COMMENT ON FUNCTION dbinfer_private.caller(text, text) IS 'the user whom dbinfer._ask noted for this model, once; NULL without its note';
REVOKE ALL ON FUNCTION dbinfer_private.caller(text, text) FROM PUBLIC;
