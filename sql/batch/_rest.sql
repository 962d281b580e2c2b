-- Scores the rows that the processes of this host have left when the scan ended: one row for each process.
CREATE OR REPLACE FUNCTION dbinfer._rest(function text, scan text, token text, on_error text) RETURNS SETOF dbinfer._results
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE COST 10000 ROWS 4 AS $$
ticket = GD.get("dbinfer.tickets", {}).get(token)
if ticket is None:
    plpy.error("dbinfer: unknown model token", hint="Call dbinfer.classify_table or one of its sisters.", sqlstate="22023")
return ticket.run(plpy, "rest", b"", on_error, (function, scan, on_error))
$$;
COMMENT ON FUNCTION dbinfer._rest(text, text, text, text) IS 'internal: scores what a scan has left; call dbinfer.classify_table or one of its sisters';
GRANT EXECUTE ON FUNCTION dbinfer._rest(text, text, text, text) TO PUBLIC;
