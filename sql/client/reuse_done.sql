-- What has a result now is no longer of interest. OFFSET 0: each row is looked up, where a join could read all results.
DELETE FROM {pictures} picture
 WHERE EXISTS (SELECT FROM {into} done WHERE {done_same} AND done.model OPERATOR(pg_catalog.=) {model} AND done.version OPERATOR(pg_catalog.=) {version}
               /* postgresql: OFFSET 0 */)
