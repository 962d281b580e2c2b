-- The first bytes and the size of some images: enough for their headers.
SELECT pg_catalog.substring(t.{img}, 1, {head}), pg_catalog.octet_length(t.{img})
  FROM {table} t {sample}
 WHERE t.{img} IS NOT NULL
 LIMIT {limit}
