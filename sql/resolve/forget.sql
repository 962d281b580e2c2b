CREATE OR REPLACE FUNCTION dbinfer_private.forget() RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
session = GD.get("dbinfer")
if session is not None:
    session.forget()
$$;
COMMENT ON FUNCTION dbinfer_private.forget() IS 'makes this backend forget what it resolved in this statement';
REVOKE ALL ON FUNCTION dbinfer_private.forget() FROM PUBLIC;
