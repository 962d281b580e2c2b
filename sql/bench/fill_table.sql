-- rows 1 .. %(rows)s, which repeat the images in turn
INSERT INTO {table}
SELECT i, s.img, pg_catalog.repeat('x', %(pad)s)
  FROM pg_catalog.generate_series(1, %(rows)s) i JOIN {source} s ON s.id = i %% %(images)s
 ORDER BY i
