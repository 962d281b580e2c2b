-- OFFSET 0: one call an image, and none where another condition leaves the row out. A row without an image has no result.
INSERT INTO {into} ({keys}, model, version, {names}, scored_at{mark_names})
SELECT {keys}, {model}, {version}, {parts}, pg_catalog.clock_timestamp(){marks}
  FROM ({rows} OFFSET 0) scored
 WHERE {keep_nulls} OR dbinfer_empty OR NOT (result IS NULL) {conflict}
