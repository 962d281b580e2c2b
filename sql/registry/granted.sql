-- A role that was dropped and made again has another oid, and gets nothing; after a restore into another cluster names count.
CREATE OR REPLACE FUNCTION dbinfer_private.granted(caller oid, wanted text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
-- USAGE, not MEMBER: as with tables, a role that the caller would have to SET ROLE to gives nothing yet
SELECT EXISTS (SELECT 1 FROM dbinfer_private.model_grant g WHERE g.model = wanted AND g.role = 'public')
    OR EXISTS (SELECT 1 FROM dbinfer_private.model_grant g JOIN pg_catalog.pg_roles r ON r.rolname = g.role
                WHERE g.model = wanted AND pg_has_role(caller, r.oid, 'USAGE')
                  AND (g.role_oid = r.oid OR g.cluster IS DISTINCT FROM dbinfer_private.cluster()))
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = 'dbinfer_admin' AND pg_has_role(caller, r.oid, 'USAGE'))
$$;
COMMENT ON FUNCTION dbinfer_private.granted(oid, text) IS 'whether the model is granted to the user, to a role it has, or to everybody, or the user is an administrator';
REVOKE ALL ON FUNCTION dbinfer_private.granted(oid, text) FROM PUBLIC;
