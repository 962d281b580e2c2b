CREATE OR REPLACE FUNCTION dbinfer_private.usage_here(role oid) RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
session = GD.get("dbinfer")
return session and session.usage().read(role)
$$;
COMMENT ON FUNCTION dbinfer_private.usage_here(oid) IS 'what was counted in this data directory, as JSON; NULL means all roles';
REVOKE ALL ON FUNCTION dbinfer_private.usage_here(oid) FROM PUBLIC;
