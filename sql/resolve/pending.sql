-- What dbinfer._here noted last; dbinfer_private.caller then checks who noted it, and when.
CREATE OR REPLACE FUNCTION dbinfer_private.pending() RETURNS text
LANGUAGE plpython3u STABLE PARALLEL RESTRICTED AS $$
return GD.get("dbinfer.pending", (None,))[0]
$$;
COMMENT ON FUNCTION dbinfer_private.pending() IS 'the token that dbinfer._here has just noted';
REVOKE ALL ON FUNCTION dbinfer_private.pending() FROM PUBLIC;
ALTER FUNCTION dbinfer_private.pending() OWNER TO dbinfer_owner;
