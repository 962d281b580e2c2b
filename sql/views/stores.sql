-- Who may not read a store does not see it; where it lies, superusers alone see.
CREATE OR REPLACE VIEW dbinfer.stores AS
SELECT s.name,
       split_part(s.url, '://', 1) AS kind,
       CASE WHEN r.sees THEN s.url END AS url,
       CASE WHEN r.sees THEN s.endpoint END AS endpoint,
       CASE WHEN r.sees THEN s.region END AS region,
       CASE WHEN r.sees THEN s.secret END AS secret,
       s.private,
       s.seconds,
       CASE WHEN r.sees THEN ARRAY(SELECT g.role FROM dbinfer_private.store_grant g WHERE g.store = s.name ORDER BY 1) END AS granted_to
  FROM dbinfer_private.store s
  JOIN (SELECT a.rolname, /* tables-only: a.rolsuper OR a.oid = (SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'dbinfer') */ a.rolsuper /* :tables-only */ AS sees
          FROM pg_catalog.pg_roles a) r ON r.rolname = CURRENT_USER
 WHERE r.sees
    OR EXISTS (SELECT 1 FROM dbinfer_private.store_grant g
                WHERE g.store = s.name AND (g.role = 'public' OR EXISTS (
                  SELECT 1 FROM pg_catalog.pg_roles o WHERE o.rolname = g.role AND o.oid = g.role_oid AND pg_has_role(CURRENT_USER, o.oid, 'USAGE'))));
COMMENT ON VIEW dbinfer.stores IS
  'one row per store that you may read, e.g. SELECT name, kind FROM dbinfer.stores';
COMMENT ON COLUMN dbinfer.stores.name IS 'name of the store, with which references begin';
COMMENT ON COLUMN dbinfer.stores.kind IS 's3, gs, az, https, http or file';
COMMENT ON COLUMN dbinfer.stores.url IS 'where it lies; superusers alone see this and what follows';
COMMENT ON COLUMN dbinfer.stores.endpoint IS 'server of the object store, where it is not the provider''s own';
COMMENT ON COLUMN dbinfer.stores.region IS 'region of the object store';
COMMENT ON COLUMN dbinfer.stores.secret IS 'file on the hosts that holds its keys';
COMMENT ON COLUMN dbinfer.stores.private IS 'whether its server may have an address of a private network, or of the host itself';
COMMENT ON COLUMN dbinfer.stores.seconds IS 'how long fetching one image may take';
COMMENT ON COLUMN dbinfer.stores.granted_to IS 'roles that may read it; public is everybody';
GRANT SELECT ON dbinfer.stores TO PUBLIC;
