-- What clients of `dbinfer score` say of their jobs: written about once a second by the client, never with a batch.
CREATE TABLE dbinfer_private.job (
  id bigint PRIMARY KEY,
  role text NOT NULL,
  facts jsonb NOT NULL,
  state text NOT NULL,
  done bigint NOT NULL,
  total bigint,
  errors bigint NOT NULL,
  last_error text,
  pid integer NOT NULL,
  cancelled boolean NOT NULL,
  started_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  ended_at timestamptz
) /* greenplum: DISTRIBUTED BY (id) */;
COMMENT ON TABLE dbinfer_private.job IS 'jobs of dbinfer score; see dbinfer.jobs';
CREATE SEQUENCE dbinfer_private.job_id;
