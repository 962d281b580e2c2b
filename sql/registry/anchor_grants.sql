-- Grants of 0.1.0, and those that came with a backup from another cluster, know their role by its name alone. Here they get
-- its oid; what names a role that does not exist stays as it is.
CREATE OR REPLACE FUNCTION dbinfer_private.anchor_grants() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  here text := dbinfer_private.cluster();
  r record;
BEGIN
  FOR r IN SELECT o.rolname, o.oid FROM pg_catalog.pg_roles o
            JOIN (SELECT role, cluster FROM dbinfer_private.model_grant UNION SELECT role, cluster FROM dbinfer_private.store_grant) g
              ON g.role = o.rolname AND g.cluster IS DISTINCT FROM here LOOP
    UPDATE dbinfer_private.model_grant g SET role_oid = r.oid, cluster = here
     WHERE g.role = r.rolname AND g.cluster IS DISTINCT FROM here;
    UPDATE dbinfer_private.store_grant g SET role_oid = r.oid, cluster = here
     WHERE g.role = r.rolname AND g.cluster IS DISTINCT FROM here;
  END LOOP;
END $$;
COMMENT ON FUNCTION dbinfer_private.anchor_grants() IS 'lets grants that know their role by name alone, such as those of a restored backup, know its oid';
REVOKE ALL ON FUNCTION dbinfer_private.anchor_grants() FROM PUBLIC;
