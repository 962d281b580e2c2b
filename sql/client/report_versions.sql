-- What the table of results holds of each model version: rows, rows with a result, the first and last time. Last used first.
SELECT {model}, {version}, pg_catalog.count(*), pg_catalog.count(p.{first}), pg_catalog.min({at}), pg_catalog.max({at})
  FROM {predictions} p
 GROUP BY 1, 2
 ORDER BY 6 DESC NULLS LAST, 2 DESC NULLS LAST, 1
