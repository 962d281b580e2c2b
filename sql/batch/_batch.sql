-- Returns the results of a whole batch as a literal of dbinfer._scored, else the rows that wait in it as
-- `id:base64;id:base64;`. Volatile: called once a row. Never uses plpy.
CREATE OR REPLACE FUNCTION dbinfer._batch(scan text, id bigint, img bytea, token text, on_error text) RETURNS bytea
LANGUAGE plpython3u VOLATILE PARALLEL SAFE COST 10000 AS $$
ticket = GD.get("dbinfer.tickets", {}).get(token)
if ticket is None:
    plpy.error("dbinfer: unknown model token", hint="Call dbinfer.classify_table.", sqlstate="22023")
# the image goes within the row: run() would answer a NULL at once, and that row would be missing
return ticket.run(plpy, "batch", b"", on_error, (scan, id, img, on_error))
$$;
COMMENT ON FUNCTION dbinfer._batch(text, bigint, bytea, text, text) IS 'internal: scores rows in batches; call dbinfer.classify_table';
GRANT EXECUTE ON FUNCTION dbinfer._batch(text, bigint, bytea, text, text) TO PUBLIC;
