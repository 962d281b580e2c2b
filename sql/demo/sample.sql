-- One row of each digit: what is written there, what the model reads, how sure it is, and the image.
SELECT path, label, (c).label AS digit, round((c).score::numeric, 4)::float8 AS score, img
  FROM (SELECT path, label, img, dbinfer.classify(img, 'digits') AS c
          FROM (SELECT DISTINCT ON (label) path, label, img FROM images ORDER BY label, md5(path)) one) s
 ORDER BY label
