CREATE OR REPLACE FUNCTION dbinfer_private.start_runtime(digest text) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
try:
  modules, scope = GD.pop("dbinfer.modules"), {"__name__": "dbinfer_bootstrap"}
  exec(compile(modules["bootstrap"], "dbinfer-%s/bootstrap.py" % digest[:12], "exec"), scope)
  scope["start"](modules, digest, GD)
-- include shared/one_interrupt.sql
$$;
COMMENT ON FUNCTION dbinfer_private.start_runtime(text) IS 'starts the runtime from the modules taken before';
REVOKE ALL ON FUNCTION dbinfer_private.start_runtime(text) FROM PUBLIC;
