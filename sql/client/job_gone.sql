-- What was stored of rows that are no longer there.
DELETE FROM {stored} done
 WHERE done.model OPERATOR(pg_catalog.=) {model} AND done.version OPERATOR(pg_catalog.=) {version} AND {listed}
   AND NOT EXISTS (SELECT FROM {table} source WHERE {done_same})
