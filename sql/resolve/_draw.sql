-- The two things to draw are arguments of their own: a row's are not known when the token is made.
CREATE OR REPLACE FUNCTION dbinfer._draw(img bytea, detections text, mask bytea, token text) RETURNS bytea
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 10000 AS $$
-- include shared/ticket.sql
return ticket.run(plpy, "draw", img, "error", (detections, mask))
$$;
COMMENT ON FUNCTION dbinfer._draw(bytea, text, bytea, text) IS 'internal: draws on one image; call dbinfer.draw';
GRANT EXECUTE ON FUNCTION dbinfer._draw(bytea, text, bytea, text) TO PUBLIC;
