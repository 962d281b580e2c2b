CREATE OR REPLACE FUNCTION dbinfer_private.raise_unknown(base text, suffix text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known text;
BEGIN
  /* greenplum: IF dbinfer_private.finishing() THEN
    RETURN;
  END IF; */
  PERFORM dbinfer_private.require_registry();
  IF base IS NULL THEN
    RAISE undefined_object USING MESSAGE = 'no model is deployed yet', HINT = 'Deploy one: dbinfer deploy model.xml';
  END IF;
  IF EXISTS (SELECT 1 FROM dbinfer_private.model m WHERE m.name = base) THEN
    SELECT string_agg(x.n, ', ' ORDER BY x.n) INTO known FROM (
      SELECT base || '@' || v.version AS n FROM dbinfer_private.model_version v WHERE v.model = base AND v.tower IS NULL
      UNION ALL
      SELECT base || '@' || a.alias FROM dbinfer_private.alias a WHERE a.model = base
    ) x;
    RAISE undefined_object USING MESSAGE = format('model "%s" has no version or alias "%s"', base, suffix),
      HINT = 'Versions: ' || coalesce(known, 'none') || '.';
  END IF;
  SELECT string_agg(m.name, ', ' ORDER BY m.name) INTO known FROM dbinfer_private.model m;
  RAISE undefined_object USING MESSAGE = format('model "%s" does not exist', base),
    HINT = coalesce('Deployed models: ' || known || '.', 'No model is deployed yet. Deploy one: dbinfer deploy model.xml');
END $$;
COMMENT ON FUNCTION dbinfer_private.raise_unknown(text, text) IS 'raises undefined_object with the names that exist; nothing on a segment that is finishing';
REVOKE ALL ON FUNCTION dbinfer_private.raise_unknown(text, text) FROM PUBLIC;
