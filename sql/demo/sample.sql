-- A sample of rows: what is written there, what the model reads, how sure it is.
SELECT path, label, (c).label AS digit, round((c).score::numeric, 4)::float8 AS score
  FROM (SELECT path, label, dbinfer.classify(img, 'digits') AS c FROM images ORDER BY md5(path) LIMIT 8) s
