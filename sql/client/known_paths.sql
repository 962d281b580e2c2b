-- Those of some paths that are in the table, with what shows whether a file has changed since. The subquery keeps the images
-- out of the join: on Greenplum that may move rows, and octet_length alone reads no image.
SELECT t.path, t.size, t.modified
  FROM (SELECT {path} AS path, pg_catalog.octet_length({img}) AS size, {modified} AS modified FROM {table}) t
  JOIN pg_catalog.unnest({asked}::pg_catalog.text[]) AS a(path) ON t.path OPERATOR(pg_catalog.=) a.path
