-- With the caller's rights, so that _ask notes the acting role.
CREATE OR REPLACE FUNCTION dbinfer.cancel_job(job bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM dbinfer._cancel_job(job, dbinfer._ask('dbinfer score'));
END $$;
COMMENT ON FUNCTION dbinfer.cancel_job(bigint) IS
  'ends a job of dbinfer score after its current batch; what is scored stays. Your own jobs; administrators: all, e.g. SELECT dbinfer.cancel_job(id) FROM dbinfer.jobs WHERE state = ''running''';
GRANT EXECUTE ON FUNCTION dbinfer.cancel_job(bigint) TO PUBLIC;
