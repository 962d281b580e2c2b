-- The embeddings of the rows that have a label.
SELECT e.embedding
  FROM {embeddings} e JOIN {table} i ON {same}
 WHERE {embedded_version} AND NOT ({unlabelled}) AND e.embedding IS NOT NULL
