-- Accuracy of the digits model on the loaded images, computed where they lie.
SELECT count(*) AS images,
       avg(((dbinfer.classify(img, 'digits')).label = label)::int)::float8 AS accuracy
  FROM images
