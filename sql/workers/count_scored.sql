CREATE OR REPLACE FUNCTION dbinfer_private.count_scored(who oid, version integer, scored bigint, took double precision) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  at timestamptz := clock_timestamp();
  who_name text := pg_get_userbyid(who);
BEGIN
  IF NOT scored > 0 OR NOT EXISTS (SELECT 1 FROM dbinfer_private.setting s WHERE s.name = 'usage' AND s.value = 'on') THEN
    RETURN;
  END IF;
  -- two that count for a role for the first time take turns
  PERFORM pg_advisory_xact_lock(hashtext('dbinfer usage'), hashtext(who::text || ' ' || version::text));
  UPDATE dbinfer_private.usage u SET rows = u.rows + scored, seconds = u.seconds + greatest(took, 0), last_used = at, role = who_name
   WHERE u.source = 'workers' AND u.role_oid = who AND u.version_id = version;
  IF NOT FOUND THEN
    INSERT INTO dbinfer_private.usage VALUES ('workers', who, version, who_name, scored, greatest(took, 0), at);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.count_scored(oid, integer, bigint, double precision) IS 'counts rows that a worker has scored for a role, where the setting usage is on';
REVOKE ALL ON FUNCTION dbinfer_private.count_scored(oid, integer, bigint, double precision) FROM PUBLIC;
