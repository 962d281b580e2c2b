-- Where images may lie outside the database, as superusers declare it, and who may read there.
CREATE TABLE dbinfer_private.store (
  name text PRIMARY KEY,
  url text NOT NULL,
  endpoint text,
  region text,
  secret text,
  private boolean NOT NULL,
  seconds integer NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.store IS 'stores of images; see dbinfer.add_store';
CREATE TABLE dbinfer_private.store_grant (
  store text NOT NULL,
  role text NOT NULL,
  role_oid oid,
  cluster text,
  PRIMARY KEY (store, role)
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.store_grant IS 'roles that may read a store; see dbinfer.grant_store';
