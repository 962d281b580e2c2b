JOIN {embeddings} e ON {embedded_key} OPERATOR(pg_catalog.=) c.key AND {embedded_version} AND e.embedding IS NOT NULL
