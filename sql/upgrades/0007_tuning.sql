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
