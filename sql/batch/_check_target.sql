-- Holds a table until the transaction ends, unless other users' code would run when the caller writes to it.
CREATE OR REPLACE FUNCTION dbinfer._check_target(target regclass) RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
DECLARE
  what text;
  whose text;
  kind pg_catalog.text := (SELECT c.relkind FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) target);
BEGIN
  -- before it looks, so that no partition is added meanwhile; views are not locked as tables are
  IF kind OPERATOR(pg_catalog.=) 'r' OR kind OPERATOR(pg_catalog.=) 'p' THEN
    EXECUTE pg_catalog.format('LOCK TABLE %s IN ROW EXCLUSIVE MODE', target);
  END IF;
  WITH RECURSIVE wanted AS (SELECT target::pg_catalog.oid AS oid)
-- include shared/strange_parts.sql
  INTO what, whose;
  IF FOUND THEN
    RAISE insufficient_privilege USING
      MESSAGE = pg_catalog.format('%s is not written to: %s belongs to %s, whose code would run with your rights', target, what, whose),
      HINT = pg_catalog.format('Use a table of your own, or act as its owner: SET ROLE %I', whose);
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer._check_target(regclass) IS 'internal: raises 42501 where code of others would run when the caller writes to a table';
GRANT EXECUTE ON FUNCTION dbinfer._check_target(regclass) TO PUBLIC;
