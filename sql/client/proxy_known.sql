-- Embeddings of rows with a kept answer, the answers given last; of two answers for a row the later one.
SELECT e.embedding::pg_catalog.float4[], a.answer
  FROM {embeddings} e
  JOIN (SELECT k.key, k.answer, k.scored_at, pg_catalog.row_number() OVER (PARTITION BY k.key ORDER BY k.scored_at DESC) AS place
          FROM {answers} k WHERE k.question OPERATOR(pg_catalog.=) {question} AND k.answer IS NOT NULL) a
    ON a.key OPERATOR(pg_catalog.=) e.{key}::pg_catalog.text AND a.place OPERATOR(pg_catalog.=) 1
 WHERE e.embedding IS NOT NULL
 ORDER BY a.scored_at DESC
 LIMIT {most}
