-- As granted, for models; but administrators of models get no images by that.
CREATE OR REPLACE FUNCTION dbinfer_private.store_granted(caller oid, wanted text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT EXISTS (SELECT 1 FROM dbinfer_private.store_grant g WHERE g.store = wanted AND g.role = 'public')
    OR EXISTS (SELECT 1 FROM dbinfer_private.store_grant g JOIN pg_catalog.pg_roles r ON r.rolname = g.role
                WHERE g.store = wanted AND pg_has_role(caller, r.oid, 'USAGE')
                  AND (g.role_oid = r.oid OR g.cluster IS DISTINCT FROM dbinfer_private.cluster()))
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.oid = caller AND /* tables-only: (r.rolsuper OR r.oid = (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer')) */ r.rolsuper /* :tables-only */)
$$;
COMMENT ON FUNCTION dbinfer_private.store_granted(oid, text) IS 'whether the store is granted to the user, to a role it has, or to everybody, or the user is a superuser';
REVOKE ALL ON FUNCTION dbinfer_private.store_granted(oid, text) FROM PUBLIC;
