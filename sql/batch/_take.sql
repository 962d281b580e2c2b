-- Takes a row of a scan into this process's batch; returns the results of a whole batch, else NULL: the rows that are left when
-- the scan has ended are for dbinfer._rest. Volatile: called once a row. Never uses plpy, which crashes parallel workers.
CREATE OR REPLACE FUNCTION dbinfer._take(function text, scan text, id bigint, img bytea, token text, on_error text) RETURNS dbinfer._results
LANGUAGE plpython3u VOLATILE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
# the image goes within the row: run() would answer a NULL at once, and that row would be missing
return ticket.run(plpy, "batch", b"", on_error, (function, scan, id, img, on_error))
$$;
COMMENT ON FUNCTION dbinfer._take(text, text, bigint, bytea, text, text) IS 'internal: scores rows in batches; call dbinfer.classify_table or the like';
GRANT EXECUTE ON FUNCTION dbinfer._take(text, text, bigint, bytea, text, text) TO PUBLIC;
