-- The images of a few keys, and what else is asked of their rows. What is too large for a page comes as NULL.
SELECT {key}, CASE WHEN pg_catalog.octet_length(i.{img}) OPERATOR(pg_catalog.<=) {limit} THEN i.{img} END, {more}
  FROM ROWS FROM ({asked}) AS a({names})
  JOIN {table} i ON {same}
  {joined}
