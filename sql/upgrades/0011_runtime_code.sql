-- The modules of the runtime as this server's Python has compiled them, so that no session need do it; sources stay for all others.
CREATE TABLE dbinfer_private.runtime_code (
  python text PRIMARY KEY,
  digest text NOT NULL,
  code bytea NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
ALTER TABLE dbinfer_private.runtime_code ALTER COLUMN code SET STORAGE EXTERNAL;
COMMENT ON TABLE dbinfer_private.runtime_code IS 'the runtime compiled by the server''s Python; of no use to another one, or for another digest';
