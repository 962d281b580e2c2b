-- What workers outside the database do: the batches of a job that several of them share, and rows that are scored on request.
CREATE TABLE dbinfer_private.asking (
  secret text PRIMARY KEY
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.asking IS 'where PL/Python is not: the key by which dbinfer._asker signs who asks';

CREATE TABLE dbinfer_private.shared_job (
  job bigint PRIMARY KEY,
  options jsonb NOT NULL,
  most_errors bigint,
  pass integer NOT NULL,
  found boolean NOT NULL,
  low text[],
  look_at timestamptz NOT NULL
) /* greenplum: DISTRIBUTED BY (job) */;
COMMENT ON TABLE dbinfer_private.shared_job IS 'jobs whose batches workers claim: how far they are cut, in which pass over the table';

CREATE TABLE dbinfer_private.batch (
  job bigint,
  number bigint,
  low text[],
  high text[] NOT NULL,
  rows bigint NOT NULL,
  retry boolean NOT NULL,
  token text NOT NULL,
  until timestamptz NOT NULL,
  tries integer NOT NULL,
  PRIMARY KEY (job, number)
) /* greenplum: DISTRIBUTED BY (job) */;
COMMENT ON TABLE dbinfer_private.batch IS 'batches that workers hold: whoever has the token may write the results, until another worker takes it over';
CREATE SEQUENCE dbinfer_private.batch_number;

CREATE TABLE dbinfer_private.request (
  id bigint PRIMARY KEY,
  role text NOT NULL,
  role_oid bigint NOT NULL,
  version_id integer NOT NULL,
  function text NOT NULL,
  img bytea NOT NULL,
  asked_at timestamptz NOT NULL,
  token text,
  until timestamptz NOT NULL
) /* greenplum: DISTRIBUTED BY (id) */;
ALTER TABLE dbinfer_private.request ALTER COLUMN img SET STORAGE EXTERNAL;
COMMENT ON TABLE dbinfer_private.request IS 'images that wait for a worker; see dbinfer.request';
CREATE SEQUENCE dbinfer_private.request_id;

CREATE TABLE dbinfer_private.answer (
  id bigint PRIMARY KEY,
  role_oid bigint NOT NULL,
  result text,
  problem text,
  answered_at timestamptz NOT NULL
) /* greenplum: DISTRIBUTED BY (id) */;
COMMENT ON TABLE dbinfer_private.answer IS 'what workers found; see dbinfer.answer';
