-- Scores some rows of a table: how many there were, and how many of them gave a result.
SELECT pg_catalog.count(*), pg_catalog.count({call})
  FROM (SELECT t.{img} AS img FROM {table} t {sample} WHERE t.{img} IS NOT NULL LIMIT {rows}) s
