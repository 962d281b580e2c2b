-- Scores the rows that the processes of this host have left when the scan ended: one row for each process.
CREATE OR REPLACE FUNCTION dbinfer._rest(function text, scan text, token text, on_error text) RETURNS SETOF dbinfer._results
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE COST 10000 ROWS 4 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "rest", b"", on_error, (function, scan, on_error))
$$;
COMMENT ON FUNCTION dbinfer._rest(text, text, text, text) IS 'internal: scores what a scan has left; call dbinfer.classify_table or the like';
GRANT EXECUTE ON FUNCTION dbinfer._rest(text, text, text, text) TO PUBLIC;
