-- The logistic regression of every embedding: a dot product of two arrays, row by row.
INSERT INTO {into} ({key}, proxy)
SELECT e.{key}, 1 OPERATOR(pg_catalog./) (1 OPERATOR(pg_catalog.+) pg_catalog.exp(OPERATOR(pg_catalog.-) greatest(least({bias} OPERATOR(pg_catalog.+)
         (SELECT pg_catalog.sum(w.value OPERATOR(pg_catalog.*) w.weight) FROM ROWS FROM (pg_catalog.unnest(e.embedding::pg_catalog.float4[]), pg_catalog.unnest({weights}::pg_catalog.float8[])) w(value, weight)), 80), -80)))
  FROM {embeddings} e WHERE e.embedding IS NOT NULL AND e.{key} IS NOT NULL
