-- What the images of some paths are. Each is hashed where it lies.
SELECT t.path, t.digest
  FROM (SELECT {path} AS path, pg_catalog.sha256({img}) AS digest FROM {table}
         WHERE {path} OPERATOR(pg_catalog.=) ANY ({asked}::pg_catalog.text[])) t
