CREATE OR REPLACE FUNCTION dbinfer_private.start_code(digest text, code bytea) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
try:
  import marshal, zlib
  pack, scope = marshal.loads(code), {"__name__": "dbinfer_bootstrap"}
  exec(marshal.loads(zlib.decompress(pack["code"]["bootstrap"])), scope)
  scope["start"]({}, digest, GD, pack)
-- include shared/one_interrupt.sql
$$;
COMMENT ON FUNCTION dbinfer_private.start_code(text, bytea) IS 'starts the runtime from compiled modules, as dbinfer_private.pack has made them';
REVOKE ALL ON FUNCTION dbinfer_private.start_code(text, bytea) FROM PUBLIC;
