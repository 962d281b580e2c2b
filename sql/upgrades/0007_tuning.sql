-- The journal of `dbinfer tune`: what its workers tell each other. Optuna's own SQL schema does not fit Greenplum, whose
-- unique keys must hold the distribution key; a journal of numbered entries does.
CREATE TABLE dbinfer_private.tuning_journal (
  study text,
  number bigint,
  entry jsonb NOT NULL,
  at timestamptz NOT NULL,
  PRIMARY KEY (study, number)
) /* greenplum: DISTRIBUTED BY (study) */;
COMMENT ON TABLE dbinfer_private.tuning_journal IS 'entries of Optuna''s journal, numbered within each study; see dbinfer.trials';

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
