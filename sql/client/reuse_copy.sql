-- The answers to pictures that have some already, as results of the rows that show them.
INSERT INTO {into} ({keys}, model, version, {names}, scored_at, image_mark, image_digest)
SELECT {picture_keys}, {model}, {version}, {known_names}, pg_catalog.clock_timestamp(), picture.dbinfer_mark, picture.dbinfer_digest
  FROM {pictures} picture
  JOIN ({known}) known ON known.dbinfer_digest OPERATOR(pg_catalog.=) picture.dbinfer_digest
 WHERE picture.dbinfer_digest OPERATOR(pg_catalog.<>) '' {conflict}
