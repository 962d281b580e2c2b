CREATE OR REPLACE FUNCTION dbinfer.warm(model text DEFAULT NULL)
RETURNS TABLE (content integer, host text, pid integer, milliseconds real) LANGUAGE sql VOLATILE AS $$
SELECT (s.f->>'content')::integer, s.f->>'host', (s.f->>'pid')::integer, (s.f->>'milliseconds')::real
  FROM (SELECT dbinfer._text('warm', '\x00', dbinfer._resolve(model, false /* greenplum: OR gp_segment_id < -1 */), 'error',
                             0 /* greenplum: + gp_segment_id */)::json AS f
        /* greenplum: FROM gp_dist_random('gp_id') */) s
 ORDER BY 1
$$;
COMMENT ON FUNCTION dbinfer.warm(text) IS 'loads a model on every segment before the first query needs it, and says how long each took; lasts until the server ends idle processes';
GRANT EXECUTE ON FUNCTION dbinfer.warm(text) TO PUBLIC;
