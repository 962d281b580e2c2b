-- OFFSET 0: one call an image, and none where another condition leaves the row out. A row without an image has no result.
INSERT INTO {into} ({keys}, model, version, {names}, scored_at)
SELECT {keys}, {model}, {version}, {parts}, pg_catalog.clock_timestamp()
  FROM ({rows} OFFSET 0) scored
 WHERE {keep_nulls} OR dbinfer_empty OR NOT (result IS NULL) {conflict}
