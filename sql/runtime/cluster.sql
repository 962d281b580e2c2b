-- Greenplum 6 has no SQL function for the system identifier, but the server process does.
CREATE OR REPLACE FUNCTION dbinfer_private.cluster() RETURNS text
/* greenplum6: LANGUAGE plpython3u STABLE AS $$
import ctypes
number = ctypes.PyDLL(None).GetSystemIdentifier
number.restype = ctypes.c_uint64
return str(number())
$$ */
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s
$$
/* :greenplum6 */;
COMMENT ON FUNCTION dbinfer_private.cluster() IS 'the system identifier of this cluster';
REVOKE ALL ON FUNCTION dbinfer_private.cluster() FROM PUBLIC;
-- functions in a view run with the reader's rights; without USAGE on the schema readers cannot call it themselves
/* greenplum6: GRANT EXECUTE ON FUNCTION dbinfer_private.cluster() TO PUBLIC; */
