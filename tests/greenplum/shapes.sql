-- Plan shapes for test_plans_shapes.py, each with the one value that it gives: 60 images, 20 of each colour; the first value of
-- `colours` is the redness, 250 or 0, and that of `constant` is 7. No field of a composite: ORCA leaves those to the
-- other planner, as it does the shapes that say so.
-- name: plain -> 60
SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7;
-- name: select list -> 5000
SELECT sum((dbinfer.predict(img, 'colours'))[1]) FROM images;
-- name: LIMIT below -> 5000
SELECT sum((dbinfer.predict(img, 'colours'))[1]) FROM (SELECT * FROM images LIMIT 60) s;
-- name: ORDER BY LIMIT below -> 5000
SELECT sum((dbinfer.predict(img, 'colours'))[1]) FROM (SELECT * FROM images ORDER BY id LIMIT 60) s;
-- name: ORDER BY LIMIT -> 2500
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images ORDER BY id LIMIT 30) s;
-- name: CTE -> 5000
WITH s AS (SELECT * FROM images ORDER BY id LIMIT 60) SELECT sum((dbinfer.predict(img, 'colours'))[1]) FROM s;
-- name: CTE used twice -> 20
WITH s AS (SELECT id, (dbinfer.predict(img, 'colours'))[1] AS v FROM images)
SELECT count(*) FROM s a JOIN s b ON a.id = b.id WHERE a.v + b.v = 500;
-- name: CTE with LIMIT used twice -> 10
WITH s AS (SELECT id, (dbinfer.predict(img, 'colours'))[1] AS v FROM images ORDER BY id LIMIT 30)
SELECT count(*) FROM s a JOIN s b ON a.id = b.id WHERE a.v + b.v = 500;
-- name: LATERAL -> 5000 (not with ORCA)
SELECT sum(p[1]) FROM images i, LATERAL dbinfer.predict(i.img, 'colours') p;
-- name: LATERAL above LIMIT -> 2500 (not with ORCA)
SELECT sum(p[1]) FROM (SELECT * FROM images ORDER BY id LIMIT 30) i, LATERAL dbinfer.predict(i.img, 'colours') p;
-- name: window -> 5000
SELECT sum(v) FROM (SELECT row_number() OVER (ORDER BY id) AS n, (dbinfer.predict(img, 'colours'))[1] AS v FROM images) s
 WHERE n > 0;
-- name: window over scores -> 250
SELECT max(v) FROM (SELECT first_value((dbinfer.predict(img, 'colours'))[1]) OVER (ORDER BY id) AS v FROM images) s;
-- name: join -> 5000
SELECT sum((dbinfer.predict(i.img, 'colours'))[1]) FROM images i JOIN images j ON i.id = j.id;
-- name: join with VALUES -> 10000
SELECT sum((dbinfer.predict(img, 'colours'))[1]) FROM images JOIN (VALUES (1), (2)) v(x) ON true;
-- name: GROUP BY -> 60
SELECT sum(n) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v, count(*) AS n FROM images GROUP BY 1) s;
-- name: GROUP BY gp_segment_id -> 5000
SELECT sum(n) FROM (SELECT gp_segment_id, sum((dbinfer.predict(img, 'colours'))[1]) AS n FROM images GROUP BY 1) s;
-- name: DISTINCT -> 2
SELECT count(*) FROM (SELECT DISTINCT (dbinfer.predict(img, 'colours'))[1] FROM images) s;
-- name: CASE -> 60
SELECT sum(CASE WHEN id >= 0 THEN 1 + (dbinfer.predict(img, 'constant'))[1] - 7 END) FROM images;
-- name: two models -> 20
SELECT count(*) FROM images
 WHERE (dbinfer.predict(img, 'colours'))[1] = 250 AND (dbinfer.predict(img, 'constant'))[1] = 7;
-- name: model from a column -> 60
SELECT count(*) FROM images JOIN (VALUES ('constant'), ('constant@1')) v(m) ON v.m = 'constant'
 WHERE (dbinfer.predict(img, m))[1] = 7;
-- name: model from a subquery -> 60 (not with ORCA)
SELECT count(*) FROM images WHERE (dbinfer.predict(img, (SELECT 'constant'::text)))[1] = 7;
-- name: correlated subquery -> 20
SELECT count(*) FROM images o
 WHERE (SELECT (dbinfer.predict(i.img, 'colours'))[1] FROM images i WHERE i.id = o.id) = 250;
-- name: UNION ALL -> 5000
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images WHERE id < 30
  UNION ALL SELECT (dbinfer.predict(img, 'colours'))[1] FROM images WHERE id >= 30) s;
-- name: one value of a table -> 7
SELECT (dbinfer.predict(i.img, 'constant'))[1] FROM (SELECT img FROM images LIMIT 1) i;
-- name: FULL JOIN -> 60
SELECT count(*) FROM (SELECT id, (dbinfer.predict(img, 'constant'))[1] AS v FROM images) a
  FULL JOIN (SELECT id, (dbinfer.predict(img, 'constant'))[1] AS w FROM images) b ON a.id = b.id WHERE a.v = b.w;
-- name: scalar subquery with LIMIT beside a scan -> 40
SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'colours'))[1] <
  (SELECT (dbinfer.predict(img, 'colours'))[1] FROM images ORDER BY id LIMIT 1);
-- name: scalar subquery with LIMIT in the select list -> 420
SELECT sum(v) FROM (SELECT id, (SELECT (dbinfer.predict(img, 'constant'))[1] FROM images ORDER BY id LIMIT 1) AS v FROM images) s;
-- name: scalar subquery of an aggregate -> 40
SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'colours'))[1] <
  (SELECT max((dbinfer.predict(img, 'colours'))[1]) FROM (SELECT * FROM images ORDER BY id LIMIT 5) s);
-- name: UNION ALL with a LIMIT arm -> 5500
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images
  UNION ALL (SELECT (dbinfer.predict(img, 'colours'))[1] FROM (SELECT * FROM images ORDER BY id LIMIT 6) l)) s;
-- name: UNION with a LIMIT arm -> 2
SELECT count(*) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images
  UNION (SELECT (dbinfer.predict(img, 'colours'))[1] FROM (SELECT * FROM images ORDER BY id LIMIT 6) l)) s;
-- name: UNION ALL with a window arm -> 10000
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v, 0 AS n FROM images
  UNION ALL SELECT (dbinfer.predict(img, 'colours'))[1], row_number() OVER (ORDER BY id) FROM images) s WHERE n >= 0;
-- name: UNION ALL with an aggregate arm -> 5007 (not with ORCA)
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images
  UNION ALL SELECT (dbinfer.predict((array_agg(img ORDER BY id))[1], 'constant'))[1] FROM images) s;
-- name: UNION ALL with a constant arm -> 5007
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images
  UNION ALL SELECT 7) s;
-- name: IN with LIMIT -> 20
SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'colours', 'error', NULL))[1] IN
  (SELECT (dbinfer.predict(img, 'colours'))[1] FROM (SELECT * FROM images ORDER BY id LIMIT 1) l);
-- name: NOT IN with LIMIT -> 40
SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'colours', 'error', NULL))[1] NOT IN
  (SELECT (dbinfer.predict(img, 'colours'))[1] FROM (SELECT * FROM images ORDER BY id LIMIT 1) l);
-- name: IN with LIMIT above a subquery -> 20
SELECT count(*) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images) s WHERE v IN
  (SELECT (dbinfer.predict(img, 'colours'))[1] FROM (SELECT * FROM images ORDER BY id LIMIT 1) l);
-- name: EXISTS with LIMIT -> 20
SELECT count(*) FROM images i WHERE EXISTS (SELECT 1 FROM (SELECT * FROM images ORDER BY id LIMIT 1) l
  WHERE (dbinfer.predict(l.img, 'colours'))[1] = (dbinfer.predict(i.img, 'colours'))[1]);
-- name: INTERSECT with LIMIT -> 250
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images
  INTERSECT SELECT (dbinfer.predict(img, 'colours'))[1] FROM (SELECT * FROM images ORDER BY id LIMIT 1) l) s;
-- name: EXCEPT with LIMIT -> 0
SELECT sum(v) FROM (SELECT (dbinfer.predict(img, 'colours'))[1] AS v FROM images
  EXCEPT SELECT (dbinfer.predict(img, 'colours'))[1] FROM (SELECT * FROM images ORDER BY id LIMIT 1) l) s;
-- name: limited scores joined to a table -> 10
SELECT count(*) FROM images i JOIN
  (SELECT id, (dbinfer.predict(img, 'colours'))[1] AS v FROM (SELECT * FROM images ORDER BY id LIMIT 30) l) s
  ON i.id = s.id WHERE s.v = 250;
-- name: limited scores left joined -> 60
SELECT count(*) FROM images i LEFT JOIN
  (SELECT id, (dbinfer.predict(img, 'constant'))[1] AS v FROM (SELECT * FROM images ORDER BY id LIMIT 30) l) s
  ON i.id = s.id WHERE coalesce(s.v, 7) = 7;
-- name: scores of both sides joined -> 10
SELECT count(*) FROM images i JOIN
  (SELECT id, (dbinfer.predict(img, 'colours'))[1] AS v FROM (SELECT * FROM images ORDER BY id LIMIT 30) l) s
  ON i.id = s.id AND (dbinfer.predict(i.img, 'colours'))[1] = s.v WHERE s.v = 250;
-- name: windowed scores joined to a table -> 20
SELECT count(*) FROM images i JOIN
  (SELECT id, row_number() OVER (ORDER BY id) AS n, (dbinfer.predict(img, 'colours'))[1] AS v FROM images) s
  ON i.id = s.id WHERE s.v = 250 AND n > 0;
-- name: an aggregate's score beside a scan -> 60 (not with ORCA)
SELECT count(*) FROM images i,
  (SELECT (dbinfer.predict((array_agg(img ORDER BY id))[1], 'constant'))[1] AS v FROM images) s WHERE s.v = 7;
-- name: HAVING with a limited score -> 2
SELECT count(*) FROM (SELECT label FROM images GROUP BY label HAVING max((dbinfer.predict(img, 'colours'))[1]) <
  (SELECT (dbinfer.predict(img, 'colours'))[1] FROM images ORDER BY id LIMIT 1)) s;
-- name: joined to the catalog with LIMIT -> 3 (not with ORCA)
SELECT count(*) FROM (SELECT (dbinfer.predict(l.img, 'constant'))[1] AS v
  FROM (SELECT * FROM images ORDER BY id LIMIT 3) l JOIN pg_class c ON c.relname = 'pg_class') s WHERE v = 7;
-- name: image_info beside a limited one -> 20
SELECT count(*) FROM images WHERE (dbinfer.image_info(img))::text =
  (SELECT (dbinfer.image_info(img))::text FROM images ORDER BY id LIMIT 1);
-- name: image_info UNION ALL with LIMIT -> 61
SELECT count(f) FROM (SELECT (dbinfer.image_info(img))::text AS f FROM images
  UNION ALL SELECT (dbinfer.image_info(img))::text FROM (SELECT * FROM images LIMIT 1) l) s;
