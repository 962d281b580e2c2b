-- Plan shapes for test_resolve_parallel.py: each query gives one label per image, in the order of ids.
-- name: view
SELECT label FROM labelled ORDER BY id;
-- name: subquery
SELECT (c).label FROM (SELECT id, dbinfer.classify(img, 'colours') c FROM images OFFSET 0) x ORDER BY id;
-- name: cte
WITH c AS MATERIALIZED (SELECT id, dbinfer.classify(img, 'colours') c FROM images) SELECT (c).label FROM c ORDER BY id;
-- name: lateral
SELECT (c).label FROM images i, LATERAL (SELECT dbinfer.classify(i.img, 'colours') c OFFSET 0) x ORDER BY id;
-- name: window
SELECT (first_value(dbinfer.classify(img, 'colours')) OVER (PARTITION BY id)).label FROM images ORDER BY id;
-- name: case
SELECT CASE WHEN id >= 0 THEN (dbinfer.classify(img, 'colours')).label
            ELSE (dbinfer.classify(img, 'constant')).label END FROM images ORDER BY id;
-- name: model from a column
SELECT (dbinfer.classify(img, m)).label
  FROM (SELECT id, img, CASE WHEN id >= 0 THEN 'colours' END m FROM images OFFSET 0) x ORDER BY id;
-- name: model from a subquery
SELECT (dbinfer.classify(img, (SELECT max(name) FROM dbinfer.models WHERE name = 'colours'))).label FROM images ORDER BY id;
-- name: correlated
SELECT (SELECT (dbinfer.classify(i.img, 'colours')).label WHERE i.id >= 0) FROM images i ORDER BY id;
-- name: where
SELECT CASE id % 3 WHEN 0 THEN 'red' WHEN 1 THEN 'green' ELSE 'blue' END FROM images
 WHERE (dbinfer.classify(img, 'colours')).class = id % 3 ORDER BY id;
-- name: union
SELECT l FROM (
  SELECT id, (dbinfer.classify(img, 'colours')).label l FROM images WHERE id < 60
  UNION ALL
  SELECT id, (dbinfer.classify(img, 'colours@1')).label FROM images WHERE id >= 60) x ORDER BY id;
-- name: two models
SELECT (dbinfer.classify(img, 'colours')).label FROM images
 WHERE (dbinfer.predict(img, 'constant'))[1] = 7 ORDER BY id;
-- name: join
SELECT (dbinfer.classify(a.img, 'colours')).label FROM images a JOIN images b USING (id)
 WHERE dbinfer.predict_tensor(b.img, 'constant') IS NOT NULL ORDER BY id;
-- name: group by
SELECT min((dbinfer.classify(img, 'colours')).label) FROM images GROUP BY id ORDER BY id;
-- name: function with a loop
SELECT looped.label FROM looped();
