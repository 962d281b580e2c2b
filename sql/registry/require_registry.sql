-- Between the two phases of gpexpand a new segment has our functions, which are in the catalog, but none of the registry's rows.
CREATE OR REPLACE FUNCTION dbinfer_private.require_registry() RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  /* greenplum: IF current_setting('gp_contentid')::integer >= (
      SELECT min(p.numsegments) FROM gp_distribution_policy p JOIN pg_class c ON c.oid = p.localoid
       WHERE p.policytype = 'r' AND c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'dbinfer_private')) THEN
    RAISE object_not_in_prerequisite_state USING
      MESSAGE = 'the registry is not on this segment yet: the cluster was expanded, not redistributed',
      HINT = 'Finish gpexpand with its second phase: gpexpand -d HH:MM:SS. Until then a plain SELECT scores tables from before.';
  END IF; */
  NULL;
END $$;
COMMENT ON FUNCTION dbinfer_private.require_registry() IS 'raises 55000 on a segment to which gpexpand has not brought the registry yet';
REVOKE ALL ON FUNCTION dbinfer_private.require_registry() FROM PUBLIC;
