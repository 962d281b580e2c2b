-- What the table of images calls the rows of a few keys: the end of a path, where its file's name is.
SELECT {key}, pg_catalog."right"(i.{called}::pg_catalog.text, {limit})
  FROM ROWS FROM ({asked}) AS a({names})
  JOIN {table} i ON {same}
 WHERE i.{called} IS NOT NULL
