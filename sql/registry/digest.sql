-- Greenplum 6 has no sha256 of its own.
CREATE OR REPLACE FUNCTION dbinfer_private.digest(content bytea) RETURNS text
/* greenplum6: LANGUAGE plpython3u IMMUTABLE AS $$
import hashlib
return None if content is None else hashlib.sha256(content).hexdigest()
$$ */
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT encode(sha256(content), 'hex')
$$
/* :greenplum6 */;
COMMENT ON FUNCTION dbinfer_private.digest(bytea) IS 'sha256 of a part of a model file, in hex';
REVOKE ALL ON FUNCTION dbinfer_private.digest(bytea) FROM PUBLIC;
