-- Its words come from a client that need not be ours.
CREATE OR REPLACE FUNCTION dbinfer._add_version(model_name text, facts jsonb, activate boolean, note text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  author text := dbinfer_private.asker('dbinfer deploy', note);
BEGIN
  IF (model_name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,62}$') IS NOT TRUE THEN
    RAISE invalid_name USING MESSAGE = format('%L is not a valid model name', model_name),
      HINT = 'A name starts with a letter and has at most 63 letters, digits, _ . and -.';
  END IF;
  -- IS NOT TRUE: a missing key gives NULL, and is refused, too
  IF (jsonb_typeof(facts->'manifest') = 'object' AND facts->>'size' ~ '^[0-9]{1,15}$'
      AND facts->>'source_digest' ~ '^[0-9a-f]{64}$' AND facts->>'xml_digest' ~ '^[0-9a-f]{64}$'
      AND facts->>'bin_digest' ~ '^[0-9a-f]{64}$' AND jsonb_typeof(facts->'xml_parts') = 'array'
      AND jsonb_typeof(facts->'bin_parts') = 'array'
      AND coalesce(jsonb_typeof(facts->'trial'), 'object') = 'object') IS NOT TRUE THEN
    RAISE data_exception USING MESSAGE = 'a version needs a manifest, a size, three digests and the lists of its parts',
      HINT = 'Deploy with: dbinfer deploy model.xml';
  END IF;
  IF EXISTS (SELECT 1 FROM (SELECT jsonb_array_elements_text(facts->'xml_parts') AS digest
                    UNION ALL SELECT jsonb_array_elements_text(facts->'bin_parts')) d
              WHERE NOT EXISTS (SELECT 1 FROM dbinfer_private.part p WHERE p.digest = d.digest)) THEN
    RAISE data_exception USING MESSAGE = 'a part of the version is missing', HINT = 'Deploy with: dbinfer deploy model.xml';
  END IF;
  PERFORM dbinfer_private.lock_registry();
  RETURN dbinfer_private.add_version(model_name, facts, coalesce(activate, false), author);
END $$;
COMMENT ON FUNCTION dbinfer._add_version(text, jsonb, boolean, text) IS 'internal: registers a version whose parts are stored, and activates it where asked';
REVOKE ALL ON FUNCTION dbinfer._add_version(text, jsonb, boolean, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._add_version(text, jsonb, boolean, text) TO dbinfer_admin;
