-- Greenplum: each segment takes 32 of its images at once. Results may move to where their key belongs, images do not. What the last
-- batch of a segment leaves, rows without an image and bad ones are for the statement that follows (job_batch.sql).
INSERT INTO {into} ({keys}, model, version, {names}, scored_at)
SELECT found.dbinfer_key::{type}, {model}, {version}, found.class, found.label, found.score, pg_catalog.clock_timestamp()
  FROM (SELECT pg_catalog.unnest((b.r).ids) AS dbinfer_key, pg_catalog.unnest((b.r).classes) AS class,
               pg_catalog.unnest((b.r).labels) AS label, pg_catalog.unnest((b.r).scores) AS score
          FROM (SELECT pg_catalog.convert_from(a.b, 'UTF8')::dbinfer._scored AS r
                  FROM (SELECT dbinfer._batch({scan}, {keys}, dbinfer_img, dbinfer._resolve({reference}, dbinfer_img IS NULL), 'null') AS b
                          FROM ({rows}) source) a
                 WHERE pg_catalog.get_byte(a.b, 0) OPERATOR(pg_catalog.=) 40) b) found
 WHERE found.class IS NOT NULL {conflict}
