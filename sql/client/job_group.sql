-- A small network takes 32 images at once. Each call of _take gives nothing yet, or the results of a whole batch; what is left of
-- the last batch is scored row by row.
WITH source AS MATERIALIZED (
  SELECT pg_catalog.row_number() OVER () AS dbinfer_row, {keys}, dbinfer_img{marks} FROM ({rows} OFFSET 0) listed
), found AS MATERIALIZED (
  SELECT pg_catalog.unnest((a.b).ids) AS dbinfer_row, pg_catalog.unnest((a.b).{kind}) AS result
    FROM (SELECT dbinfer._take({function}, {scan}, dbinfer_row, {taken}, dbinfer._resolve({reference}, dbinfer_img IS NULL), 'null') AS b
            FROM source OFFSET 0) a
   WHERE (a.b).ids IS NOT NULL
), scored AS MATERIALIZED (
  SELECT {source_keys}, dbinfer_img IS NULL AS dbinfer_empty, found.result::{result_type} AS result{marks}
    FROM source JOIN found ON found.dbinfer_row OPERATOR(pg_catalog.=) source.dbinfer_row
  UNION ALL
  SELECT {source_keys}, dbinfer_img IS NULL AS dbinfer_empty, {call} AS result{marks} FROM source
   WHERE source.dbinfer_row OPERATOR(pg_catalog.>) coalesce((SELECT pg_catalog.max(found.dbinfer_row) FROM found), 0)
)
INSERT INTO {into} ({keys}, model, version, {names}, scored_at{mark_names})
SELECT {keys}, {model}, {version}, {parts}, pg_catalog.clock_timestamp(){marks} FROM scored
 WHERE {keep_nulls} OR dbinfer_empty OR NOT (result IS NULL) {conflict}
