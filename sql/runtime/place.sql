-- Volatile, because Greenplum would fold it into a constant on the coordinator, but each segment must answer for itself.
CREATE OR REPLACE FUNCTION dbinfer_private.place() RETURNS text
LANGUAGE plpython3u VOLATILE PARALLEL SAFE AS $$
import os, socket
return "%s %d" % (socket.gethostname(), os.cpu_count() or 1)
$$;
COMMENT ON FUNCTION dbinfer_private.place() IS 'name and cores of the host that this backend runs on';
REVOKE ALL ON FUNCTION dbinfer_private.place() FROM PUBLIC;
