CREATE OR REPLACE VIEW dbinfer.segments AS
SELECT (s.f->>'content')::integer AS content,
       s.f->>'host' AS host,
       (s.f->>'pid')::integer AS pid,
       s.f->>'python' AS python,
       s.f->>'openvino' AS openvino,
       s.f->>'numpy' AS numpy,
       s.f->>'opencv' AS opencv,
       s.f->>'orjson' AS orjson,
       s.f->>'venv' AS venv,
       (s.f->>'cores')::integer AS cores,
       (s.f->>'threads')::integer AS threads,
       s.f->>'cache_dir' AS cache_dir,
       (s.f->>'cache_bytes')::bigint AS cache_bytes,
       (s.f->>'cache_free')::bigint AS cache_free,
       s.f->'models' AS models,
       (s.f->>'rss')::bigint AS rss,
       s.f->>'runtime_digest' AS runtime_digest,
       s.f->>'problem' AS problem,
       (s.f->>'compiled')::boolean AS compiled,
       s.f->'precisions' AS precisions
  FROM (SELECT t::json AS f FROM dbinfer._segments() t) s;
COMMENT ON VIEW dbinfer.segments IS 'one row per process that scores: versions, cores, threads, cache, models in use, memory in bytes, and what is wrong there';
GRANT SELECT ON dbinfer.segments TO PUBLIC;
