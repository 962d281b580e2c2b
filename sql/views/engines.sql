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
COMMENT ON VIEW dbinfer.engines IS 'one row per engine of each host: how long it runs, its models with their memory, requests, errors, restarts of workers, and requests that wait';
GRANT SELECT ON dbinfer.engines TO PUBLIC;
