-- Counters lie in the data directories; a copy here outlives a lost host, and goes into a dump. A read-only transaction keeps none.
CREATE OR REPLACE FUNCTION dbinfer._keep_usage() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  counted jsonb;
  c record;
BEGIN
  IF current_setting('transaction_read_only')::boolean THEN
    RETURN;
  END IF;
  -- sessions that score never touch this table
  LOCK TABLE dbinfer_private.usage IN SHARE ROW EXCLUSIVE MODE;
  -- all at once: on Greenplum segments must not be at work still when the rows are written
  SELECT coalesce(json_agg(x), '[]') INTO counted FROM dbinfer._counted_usage x;
  FOR c IN SELECT x.*, coalesce(r.rolname::text, 'role ' || x.role_oid::text) AS role
             FROM jsonb_to_recordset(counted) AS x(source text, role_oid oid, version_id integer, rows bigint,
                                                   seconds double precision, last_used timestamptz)
             LEFT JOIN pg_roles r ON r.oid = x.role_oid LOOP
    UPDATE dbinfer_private.usage u SET role = c.role, rows = greatest(u.rows, c.rows), seconds = greatest(u.seconds, c.seconds),
           last_used = greatest(u.last_used, c.last_used)
     WHERE u.source = c.source AND u.role_oid = c.role_oid AND u.version_id = c.version_id;
    IF NOT FOUND THEN
      INSERT INTO dbinfer_private.usage VALUES (c.source, c.role_oid, c.version_id, c.role, c.rows, c.seconds, c.last_used);
    END IF;
  END LOOP;
END $$;
COMMENT ON FUNCTION dbinfer._keep_usage() IS 'internal: keeps a copy of the counters of dbinfer.usage in the database';
REVOKE ALL ON FUNCTION dbinfer._keep_usage() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._keep_usage() TO dbinfer_admin;
