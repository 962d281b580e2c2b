-- It says what is wanted and gives no right: dbinfer._admit checks the caller.
CREATE OR REPLACE FUNCTION dbinfer_private.wanted() RETURNS text
LANGUAGE plpython3u STABLE PARALLEL RESTRICTED AS $$
return GD.get("dbinfer.wanted")
$$;
COMMENT ON FUNCTION dbinfer_private.wanted() IS 'the token that dbinfer._here was last asked for';
REVOKE ALL ON FUNCTION dbinfer_private.wanted() FROM PUBLIC;
