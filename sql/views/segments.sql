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
       s.f->'precisions' AS precisions,
       s.f->>'hint' AS hint,
       s.f->'devices' AS devices
  FROM (SELECT t::json AS f FROM dbinfer._segments() t) s;
COMMENT ON VIEW dbinfer.segments IS
  'one row per process that scores: on Greenplum one for each segment, e.g. SELECT content, pid, threads, models, rss FROM dbinfer.segments';
COMMENT ON COLUMN dbinfer.segments.content IS 'number of the segment, -1 for the coordinator; NULL on PostgreSQL';
COMMENT ON COLUMN dbinfer.segments.host IS 'name of the host; administrators alone see it';
COMMENT ON COLUMN dbinfer.segments.pid IS 'process';
COMMENT ON COLUMN dbinfer.segments.python IS 'version of Python';
COMMENT ON COLUMN dbinfer.segments.openvino IS 'version of OpenVINO';
COMMENT ON COLUMN dbinfer.segments.numpy IS 'version of NumPy';
COMMENT ON COLUMN dbinfer.segments.opencv IS 'version of OpenCV';
COMMENT ON COLUMN dbinfer.segments.orjson IS 'version of orjson';
COMMENT ON COLUMN dbinfer.segments.venv IS 'virtual environment of the packages; administrators alone see it';
COMMENT ON COLUMN dbinfer.segments.cores IS 'cores that it may use';
COMMENT ON COLUMN dbinfer.segments.threads IS 'most threads that one of its models uses; without models, the most that one may use';
COMMENT ON COLUMN dbinfer.segments.cache_dir IS 'folder of model files; administrators alone see it';
COMMENT ON COLUMN dbinfer.segments.cache_bytes IS 'bytes in that folder';
COMMENT ON COLUMN dbinfer.segments.cache_free IS 'bytes free on its disk';
COMMENT ON COLUMN dbinfer.segments.models IS 'models that it has loaded';
COMMENT ON COLUMN dbinfer.segments.rss IS 'its memory in bytes';
COMMENT ON COLUMN dbinfer.segments.runtime_digest IS 'version of the runtime that it runs';
COMMENT ON COLUMN dbinfer.segments.problem IS 'why it cannot score; NULL when it can';
COMMENT ON COLUMN dbinfer.segments.compiled IS 'whether it loaded the runtime that the registry keeps compiled, or compiled the sources itself';
COMMENT ON COLUMN dbinfer.segments.precisions IS 'precisions for which the processor has instructions';
COMMENT ON COLUMN dbinfer.segments.hint IS 'what to do about the problem; administrators alone see it';
COMMENT ON COLUMN dbinfer.segments.devices IS
  'the device that the setting names for its host, how many models it computes, and why not others; administrators alone see it';
GRANT SELECT ON dbinfer.segments TO PUBLIC;
