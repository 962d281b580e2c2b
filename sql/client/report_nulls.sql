-- Rows without a result and without a reason noted for it.
SELECT {key}, NULL::pg_catalog.text
  FROM {predictions} p
 WHERE {version} AND p.{first} IS NULL
 ORDER BY 1
 LIMIT {limit}
