-- As dbinfer_private.granted, for the user who reads the view: functions in a view run with its reader's rights, and the
-- reader may call none of dbinfer_private.
CREATE OR REPLACE VIEW dbinfer._shown_models AS
SELECT m.name AS model,
       EXISTS (SELECT 1 FROM dbinfer_private.model_grant g WHERE g.model = m.name AND g.role = 'public')
       OR EXISTS (SELECT 1 FROM dbinfer_private.model_grant g JOIN pg_catalog.pg_roles r ON r.rolname = g.role
                   WHERE g.model = m.name AND pg_has_role(r.oid, 'USAGE')
                     AND (g.role_oid = r.oid OR g.cluster IS DISTINCT FROM c.identifier))
       OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = 'dbinfer_admin' AND pg_has_role(r.oid, 'USAGE')) AS shown
  FROM dbinfer_private.model m, (SELECT /* greenplum6: dbinfer_private.cluster() AS identifier) c */ system_identifier::text AS identifier FROM pg_catalog.pg_control_system()) c
       /* :greenplum6 */;
COMMENT ON VIEW dbinfer._shown_models IS 'internal: whether the reader may run or administer a model, and so see what it is';
GRANT SELECT ON dbinfer._shown_models TO PUBLIC;
