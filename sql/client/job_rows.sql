-- The rows of a range of keys that this version has neither scored nor found bad.
SELECT {wanted} FROM {table} source WHERE (
{where}
) AND {above} AND {upto}
   AND NOT EXISTS (SELECT FROM {into} done WHERE {done_same} AND done.model OPERATOR(pg_catalog.=) {model} AND done.version OPERATOR(pg_catalog.=) {version} AND {done_above} AND {current})
   AND {not_failed}
