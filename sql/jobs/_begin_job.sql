-- `facts`: source, target (full names), function, model, version, connections.
CREATE OR REPLACE FUNCTION dbinfer._begin_job(facts jsonb, note text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who text := dbinfer_private.asker('dbinfer score', note);
  number bigint;
  other record;
  -- here, on the coordinator: within a statement Greenplum may ask a segment's process
  own integer := pg_backend_pid();
  living integer[] := ARRAY(SELECT a.pid FROM pg_stat_activity a);
  at timestamptz := clock_timestamp();
  target text := facts->>'target';
  -- an owner that is no superuser may not look into the schemas of others
  place oid := /* tables-only: (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = (parse_ident(facts->>'target'))[1] AND c.relname = (parse_ident(facts->>'target'))[2])
               */ to_regclass((facts->>'target') /* greenplum6: ::cstring */) /* :tables-only */;
  said jsonb;
BEGIN
  -- administrators read what is stored here, so types are checked and nothing else is kept
  IF (SELECT bool_and(jsonb_typeof(facts->k) = 'string') FROM unnest(ARRAY['source', 'target', 'function', 'model']) k) IS NOT TRUE
     OR (SELECT bool_and(jsonb_typeof(facts->k) = 'number' AND facts->>k ~ '^[0-9]{1,9}$') FROM unnest(ARRAY['version', 'connections']) k) IS NOT TRUE
     OR length(target) > 300
     -- or raises: what is no name is not stored. Since PostgreSQL 16 to_regclass only finds nothing then
     OR /* greenplum6: false */ cardinality(parse_ident(target)) > 2 /* :greenplum6 */ THEN
    RAISE invalid_parameter_value USING MESSAGE = 'dbinfer._begin_job is internal', HINT = 'Run: dbinfer score';
  END IF;
  said := json_build_object('source', dbinfer_private.plain(facts->>'source', 300), 'target', dbinfer_private.plain(target, 300),
                            'function', dbinfer_private.plain(facts->>'function', 100), 'model', dbinfer_private.plain(facts->>'model', 300),
                            'version', (facts->>'version')::integer, 'connections', (facts->>'connections')::integer,
                            -- a role that is created again under this name is a different role
                            'role_oid', (SELECT r.oid::bigint FROM pg_roles r WHERE r.rolname = who))::text::jsonb;
  -- two clients that start at the same moment take turns
  PERFORM pg_advisory_xact_lock(hashtext('dbinfer score'), hashtext(target));
  SELECT j.id, j.role INTO other
    FROM dbinfer_private.job j
    -- a role that may not write there does not block those that may
    JOIN pg_roles r ON r.rolname = j.role AND has_table_privilege(r.oid, place, 'INSERT')
   WHERE j.state = 'running' AND j.facts->>'target' = said->>'target'
     AND j.updated_at > at - interval '30 seconds'
     -- workers that share a job come and go
     AND CASE WHEN EXISTS (SELECT 1 FROM dbinfer_private.shared_job s WHERE s.job = j.id) THEN NOT j.cancelled
              ELSE j.pid = ANY (living) END LIMIT 1;
  IF FOUND THEN
    RAISE object_in_use USING MESSAGE = format('job %s of %s is already scoring into %s', other.id, other.role, said->>'target'),
      HINT = format('Watch it: dbinfer jobs. Or end it: dbinfer jobs cancel %s', other.id);
  END IF;
  -- they would not be read
  DELETE FROM dbinfer_private.job j WHERE j.updated_at < at - interval '90 days';
  DELETE FROM dbinfer_private.job j WHERE j.role = who
     AND j.id <= (SELECT o.id FROM dbinfer_private.job o WHERE o.role = who ORDER BY o.id DESC OFFSET 1000 LIMIT 1);
  number := nextval('dbinfer_private.job_id');
  INSERT INTO dbinfer_private.job VALUES (number, who, said, 'running', 0, NULL, 0, NULL, own, false, at, at, NULL);
  RETURN number;
END $$;
COMMENT ON FUNCTION dbinfer._begin_job(jsonb, text) IS 'internal: notes a job of dbinfer score; raises where another one fills the same table';
GRANT EXECUTE ON FUNCTION dbinfer._begin_job(jsonb, text) TO PUBLIC;
