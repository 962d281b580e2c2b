-- Numbers of versions outlive their versions, and a grant knows its role by more than its name.
CREATE TABLE dbinfer_private.last_version (
  model text PRIMARY KEY,
  version integer NOT NULL
) /* greenplum: DISTRIBUTED REPLICATED */;
COMMENT ON TABLE dbinfer_private.last_version IS 'the highest version number that a model name ever had; a number is never given twice';
INSERT INTO dbinfer_private.last_version
SELECT v.model, pg_catalog.max(v.version) FROM dbinfer_private.model_version v GROUP BY v.model;

ALTER TABLE dbinfer_private.model_grant ADD COLUMN role_oid oid;
ALTER TABLE dbinfer_private.model_grant ADD COLUMN cluster text;
COMMENT ON COLUMN dbinfer_private.model_grant.role_oid IS 'oid of the role in that cluster; where it has another one now, the role is another one';
COMMENT ON COLUMN dbinfer_private.model_grant.cluster IS 'system identifier of the cluster of role_oid; in another cluster, where a backup came to, the name counts';
