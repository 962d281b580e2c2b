CREATE OR REPLACE FUNCTION dbinfer.warm(model text DEFAULT NULL)
RETURNS TABLE (content integer, host text, pid integer, milliseconds real) LANGUAGE sql VOLATILE AS $$
-- gp_segment_id in the arguments changes none of them, but keeps the calls from being folded on the coordinator
SELECT pg_catalog.json_extract_path_text(s.f, 'content')::integer, pg_catalog.json_extract_path_text(s.f, 'host'),
       pg_catalog.json_extract_path_text(s.f, 'pid')::integer, pg_catalog.json_extract_path_text(s.f, 'milliseconds')::real
  -- any image but NULL, which is answered without the model; it is not decoded
  FROM (SELECT dbinfer._text('warm', pg_catalog.decode('00', 'hex'),
                             dbinfer._resolve(model, false /* greenplum: OR gp_segment_id OPERATOR(pg_catalog.<) -1 */), 'error',
                             0 /* greenplum: OPERATOR(pg_catalog.+) gp_segment_id */)::pg_catalog.json AS f
        /* greenplum: FROM gp_dist_random('gp_id') */ OFFSET 0) s -- OFFSET 0: one call, not one for each column
 ORDER BY 1
$$;
COMMENT ON FUNCTION dbinfer.warm(text) IS
  'loads a model on every segment before the first query needs it, and says how many milliseconds each took; it stays loaded until the server ends idle processes, e.g. SELECT * FROM dbinfer.warm(''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.warm(text) TO PUBLIC;
