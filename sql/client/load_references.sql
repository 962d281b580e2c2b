-- What is not there yet; bytes in all and rows.
WITH added AS (
  INSERT INTO {table} ({path}, etag, bytes, {label} file_modified)
  SELECT l.path, l.etag, l.bytes, {new_label} l.modified FROM {listed} l
   WHERE NOT EXISTS (SELECT FROM {table} t WHERE t.{path} OPERATOR(pg_catalog.=) l.path)
  RETURNING bytes
)
SELECT pg_catalog.count(*), coalesce(pg_catalog.sum(bytes), 0)::pg_catalog.int8 FROM added
