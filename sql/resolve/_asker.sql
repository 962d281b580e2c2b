-- Where PL/Python is not: a view reads its tables with its owner's rights, but current_user is whoever reads it. So a signature
-- of the reader's role, this process and this transaction can be had by that role alone, and functions of the owner can check it.
CREATE OR REPLACE VIEW dbinfer._asker WITH (security_barrier) AS
SELECT r.oid::text || ' ' || /* greenplum6: ''::text */ encode(sha256(convert_to(concat_ws(' ', s.secret, r.oid, pg_backend_pid(), transaction_timestamp() AT TIME ZONE 'UTC'), 'UTF8')), 'hex') /* :greenplum6 */ AS note
  FROM dbinfer_private.asking s, pg_catalog.pg_roles r WHERE r.rolname = current_user;
COMMENT ON VIEW dbinfer._asker IS 'internal: the note of dbinfer._ask where PL/Python is not; empty elsewhere';
GRANT SELECT ON dbinfer._asker TO PUBLIC;
