-- A copy of the counters that lie in the data directories; absolute, so that keeping them twice changes nothing.
CREATE TABLE dbinfer_private.usage (
  source text,
  role_oid oid,
  version_id integer,
  role text NOT NULL,
  rows bigint NOT NULL,
  seconds double precision NOT NULL,
  last_used timestamptz NOT NULL,
  PRIMARY KEY (source, role_oid, version_id)
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.usage IS 'who used what, as dbinfer._keep_usage last saw it; see dbinfer.usage';
