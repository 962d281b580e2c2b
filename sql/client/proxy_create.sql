-- The key as the embeddings have it, and the proxy.
CREATE TABLE {into} AS SELECT e.{key}, 0::pg_catalog.float4 AS proxy FROM {embeddings} e LIMIT 0
