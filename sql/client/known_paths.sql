-- Those of a few paths that are in the table.
SELECT t.{path}
  FROM {table} t
  JOIN pg_catalog.unnest({asked}::pg_catalog.text[]) AS a(path) ON t.{path} OPERATOR(pg_catalog.=) a.path
