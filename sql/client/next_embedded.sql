JOIN {embeddings} e ON {embedded} AND {embedded_version} AND e.embedding IS NOT NULL
