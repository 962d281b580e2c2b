-- One key that stands in several rows.
SELECT {texts}, pg_catalog.count(*) FROM {table} source WHERE (
{where}
) GROUP BY {keys} HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 LIMIT 1
