CREATE OR REPLACE FUNCTION dbinfer_private.caller(model text, note text) RETURNS oid
/* tables-only: LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT r.oid FROM dbinfer_private.asking s JOIN pg_roles r ON r.oid::text = split_part(note, ' ', 1)
 WHERE note = r.oid::text || ' ' || encode(sha256(convert_to(concat_ws(' ', s.secret, r.oid, pg_backend_pid(), transaction_timestamp() AT TIME ZONE 'UTC'), 'UTF8')), 'hex')
$$ */
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
# pop, whether it fits or not: a note counts once
noted = GD.pop("dbinfer.note", None)
return noted[2] if noted is not None and noted[:2] == (note, model) else None
$$
/* :tables-only */;
COMMENT ON FUNCTION dbinfer_private.caller(text, text) IS 'the user whom dbinfer._ask noted for this model, once; NULL without its note';
REVOKE ALL ON FUNCTION dbinfer_private.caller(text, text) FROM PUBLIC;
