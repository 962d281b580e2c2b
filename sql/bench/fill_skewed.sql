-- the first %(share)s of the rows have one place, the others one each
INSERT INTO {table}
SELECT i, CASE WHEN i <= %(rows)s * %(share)s THEN 0 ELSE i END, s.img
  FROM pg_catalog.generate_series(1, %(rows)s) i JOIN {source} s ON s.id = i %% %(images)s
