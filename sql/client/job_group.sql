-- A small network takes 32 images at once. Each call of _batch gives nothing yet, or the results of a whole batch (40 is the `(`
-- of its literal); what is left of the last batch is scored row by row.
WITH source AS MATERIALIZED (
  SELECT pg_catalog.row_number() OVER () AS dbinfer_row, {keys}, dbinfer_img FROM ({rows} OFFSET 0) listed
), found AS MATERIALIZED (
  SELECT pg_catalog.unnest((b.r).ids) AS dbinfer_row, pg_catalog.unnest((b.r).classes) AS class,
         pg_catalog.unnest((b.r).labels) AS label, pg_catalog.unnest((b.r).scores) AS score
    FROM (SELECT pg_catalog.convert_from(a.b, 'UTF8')::dbinfer._scored AS r
            FROM (SELECT dbinfer._batch({scan}, dbinfer_row, dbinfer_img, dbinfer._resolve({reference}, dbinfer_img IS NULL), 'null') AS b
                    FROM source OFFSET 0) a
           WHERE pg_catalog.get_byte(a.b, 0) OPERATOR(pg_catalog.=) 40 OFFSET 0) b
), scored AS (
  SELECT {source_keys}, dbinfer_img IS NULL AS dbinfer_empty, found.class, found.label, found.score
    FROM source JOIN found ON found.dbinfer_row OPERATOR(pg_catalog.=) source.dbinfer_row
  UNION ALL
  SELECT {keys}, dbinfer_empty, {parts}
    FROM (SELECT {source_keys}, dbinfer_img IS NULL AS dbinfer_empty, {call} AS result FROM source
           WHERE source.dbinfer_row OPERATOR(pg_catalog.>) coalesce((SELECT pg_catalog.max(found.dbinfer_row) FROM found), 0) OFFSET 0) rest
)
INSERT INTO {into} ({keys}, model, version, {names}, scored_at)
SELECT {keys}, {model}, {version}, {names}, pg_catalog.clock_timestamp() FROM scored
 WHERE {keep_nulls} OR dbinfer_empty OR class IS NOT NULL {conflict}
