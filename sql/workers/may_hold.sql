-- Where the server scores, a grant shows nobody the weights. Where workers do, they must have the files.
CREATE OR REPLACE FUNCTION dbinfer_private.may_hold(caller oid, model text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer_private.check_grant(caller, model);
  /* tables-only: RETURN; */
  IF has_function_privilege(caller, 'dbinfer._add_part(text, bytea)', 'EXECUTE') IS NOT TRUE THEN
    RAISE insufficient_privilege USING MESSAGE = format('permission denied for the files of model "%s"', model),
      DETAIL = 'This server scores by itself, and shows the files of models to administrators alone.',
      HINT = 'Scoring needs no files. A worker or a training that begins with them runs as a member of dbinfer_admin.';
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.may_hold(oid, text) IS 'raises unless a worker with this role''s rights may have the files of a model';
REVOKE ALL ON FUNCTION dbinfer_private.may_hold(oid, text) FROM PUBLIC;
