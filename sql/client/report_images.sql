-- The images of a few keys, and what else is asked of their rows. What is too large for a page comes as NULL.
-- OFFSET 0: an image of a store is fetched once.
SELECT {key}, (SELECT CASE WHEN pg_catalog.octet_length(x.img) OPERATOR(pg_catalog.<=) {limit} THEN x.img END FROM (SELECT {img} AS img OFFSET 0) x), {more}
  FROM ROWS FROM ({asked}) AS a({names})
  JOIN {table} i ON {same}
  {joined}
