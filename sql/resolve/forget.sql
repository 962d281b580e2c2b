CREATE OR REPLACE FUNCTION dbinfer_private.forget() RETURNS void
/* tables-only: LANGUAGE plpgsql VOLATILE AS $$
BEGIN
END $$ */
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
session = GD.get("dbinfer")
if session is not None:
    session.forget()
$$
/* :tables-only */;
COMMENT ON FUNCTION dbinfer_private.forget() IS 'makes this backend forget what it resolved in this statement';
REVOKE ALL ON FUNCTION dbinfer_private.forget() FROM PUBLIC;
