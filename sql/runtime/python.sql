-- The magic number shows which code this Python can load: it changes between versions, and within a pre-release.
CREATE OR REPLACE FUNCTION dbinfer_private.python() RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL RESTRICTED AS $$
import _frozen_importlib_external, sys
return "%s %s" % (sys.implementation.cache_tag, _frozen_importlib_external.MAGIC_NUMBER.hex())
$$;
COMMENT ON FUNCTION dbinfer_private.python() IS 'names the Python of this process by what compiled code it can load';
REVOKE ALL ON FUNCTION dbinfer_private.python() FROM PUBLIC;
