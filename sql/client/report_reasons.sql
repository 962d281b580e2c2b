-- Why rows have no result, the most frequent reasons first; the last column is the number of all such rows.
SELECT p.reason::pg_catalog.text, pg_catalog.count(*), pg_catalog.sum(pg_catalog.count(*)) OVER ()
  FROM {errors} p
 WHERE {version}
 GROUP BY 1
 ORDER BY 2 DESC, 1
 LIMIT {limit}
