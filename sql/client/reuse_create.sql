-- What a batch knows of its open rows. It lives as long as the session, and a transaction leaves it empty.
CREATE TEMPORARY TABLE {pictures} ON COMMIT DELETE ROWS AS
SELECT {columns}, NULL::pg_catalog.text AS dbinfer_mark, NULL::pg_catalog.bytea AS dbinfer_digest FROM {table} source
WITH NO DATA /* greenplum: DISTRIBUTED BY ({distribution}) */
