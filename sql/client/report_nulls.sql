-- Rows without a result where nobody has noted a reason.
SELECT {key}, NULL::pg_catalog.text
  FROM {predictions} p
 WHERE {version} AND p.{first} IS NULL
 ORDER BY 1
 LIMIT {limit}
