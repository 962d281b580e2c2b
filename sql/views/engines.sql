CREATE OR REPLACE VIEW dbinfer.engines AS
SELECT DISTINCT ON (e->>'host', (e->>'pid')::integer, e->>'digest')
       e->>'host' AS host,
       (e->>'pid')::integer AS pid,
       (e->>'uptime')::double precision * interval '1 second' AS uptime,
       (e->>'service')::boolean AS service,
       e->'models' AS models,
       (e->>'bytes')::bigint AS bytes,
       (e->>'requests')::bigint AS requests,
       (e->>'errors')::bigint AS errors,
       (e->>'restarts')::bigint AS restarts,
       (e->>'queue')::bigint AS queue,
       e->>'log' AS log,
       e->>'digest' AS runtime_digest,
       e->>'problem' AS problem
  FROM (SELECT jsonb_array_elements(t::jsonb) AS e FROM dbinfer._hosts_engines('look') t) s;
COMMENT ON VIEW dbinfer.engines IS
  'one row per engine of each host, e.g. SELECT host, pid, uptime, queue FROM dbinfer.engines';
COMMENT ON COLUMN dbinfer.engines.host IS 'name of the host; administrators alone see it';
COMMENT ON COLUMN dbinfer.engines.pid IS 'process of the engine''s supervisor';
COMMENT ON COLUMN dbinfer.engines.uptime IS 'how long it has been running';
COMMENT ON COLUMN dbinfer.engines.service IS 'whether it runs as a service, and so does not end when idle';
COMMENT ON COLUMN dbinfer.engines.models IS 'its models with version, threads, workers and memory; administrators alone see them';
COMMENT ON COLUMN dbinfer.engines.bytes IS 'memory of all its processes';
COMMENT ON COLUMN dbinfer.engines.requests IS 'rows scored since it started';
COMMENT ON COLUMN dbinfer.engines.errors IS 'rows that ended with an error';
COMMENT ON COLUMN dbinfer.engines.restarts IS 'workers that were started again';
COMMENT ON COLUMN dbinfer.engines.queue IS 'rows that wait at this moment';
COMMENT ON COLUMN dbinfer.engines.log IS 'file of its log; administrators alone see it';
COMMENT ON COLUMN dbinfer.engines.runtime_digest IS 'version of the runtime that it runs';
COMMENT ON COLUMN dbinfer.engines.problem IS 'what is wrong with it; NULL when nothing is';
GRANT SELECT ON dbinfer.engines TO PUBLIC;
