-- One row of each picture, and all rows without an image.
(SELECT DISTINCT ON (p.dbinfer_digest) p.* FROM {pictures} p
  WHERE p.dbinfer_digest OPERATOR(pg_catalog.<>) '' ORDER BY p.dbinfer_digest, {picture_order})
UNION ALL SELECT p.* FROM {pictures} p WHERE p.dbinfer_digest OPERATOR(pg_catalog.=) ''
