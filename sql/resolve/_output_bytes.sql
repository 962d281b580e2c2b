-- As _output, and the result leaves as bytea.
CREATE OR REPLACE FUNCTION dbinfer._output_bytes(img bytea, token text, on_error text, output text) RETURNS bytea
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "tensor", img, on_error, output)
$$;
COMMENT ON FUNCTION dbinfer._output_bytes(bytea, text, text, text) IS 'internal: scores one image; call dbinfer.predict_tensor';
GRANT EXECUTE ON FUNCTION dbinfer._output_bytes(bytea, text, text, text) TO PUBLIC;
