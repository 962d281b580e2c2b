-- Greenplum: each segment takes 32 of its images at once. Results may move to where their key belongs, images do not. What the last
-- batch of a segment leaves, rows without an image and bad ones are for the statement that follows (job_batch.sql).
INSERT INTO {into} ({keys}, model, version, {names}, scored_at)
SELECT found.dbinfer_key::{type}, {model}, {version}, {parts}, pg_catalog.clock_timestamp()
  FROM (SELECT b.dbinfer_key, b.result::{result_type} AS result
          FROM (SELECT pg_catalog.unnest((a.b).ids) AS dbinfer_key, pg_catalog.unnest((a.b).{kind}) AS result
                  FROM (SELECT dbinfer._take({function}, {scan}, {keys}, {taken}, dbinfer._resolve({reference}, dbinfer_img IS NULL), 'null') AS b
                          FROM ({rows}) source) a
                 WHERE (a.b).ids IS NOT NULL) b OFFSET 0) found
 WHERE NOT (found.result IS NULL) {conflict}
