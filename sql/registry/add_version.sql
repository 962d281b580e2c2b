-- The first model of a database becomes its default.
CREATE OR REPLACE FUNCTION dbinfer_private.add_version(model_name text, facts jsonb, activate boolean, author text) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  new_id integer;
  tower text;
  f jsonb;
  new_version integer;
  stamp timestamptz := now();
  k text;
  part_digest text;
BEGIN
  -- counted apart from the versions, so that the number of a dropped one is not given again
  SELECT l.version + 1 INTO new_version FROM dbinfer_private.last_version l WHERE l.model = model_name;
  new_version := coalesce(new_version, 1);
  DELETE FROM dbinfer_private.last_version l WHERE l.model = model_name;
  INSERT INTO dbinfer_private.last_version VALUES (model_name, new_version);
  IF NOT EXISTS (SELECT 1 FROM dbinfer_private.model m WHERE m.name = model_name) THEN
    INSERT INTO dbinfer_private.model VALUES (model_name, NULL);
  END IF;
  FOREACH tower IN ARRAY CASE WHEN facts ? 'text' THEN ARRAY[NULL, 'text'] ELSE ARRAY[NULL::text] END LOOP
    -- computed here and not in the INSERT: every copy of a replicated table must get the same
    new_id := nextval('dbinfer_private.version_id');
    f := CASE WHEN tower IS NULL THEN facts ELSE facts->tower END;
    INSERT INTO dbinfer_private.model_version VALUES (new_id, model_name, new_version, f->>'source_digest',
      f->>'xml_digest', f->>'bin_digest', f->'manifest', (f->>'size')::bigint, stamp, author, f->'trial', tower);
    -- one by one: INSERT ... SELECT of jsonb_array_elements_text WITH ORDINALITY crashed a Greenplum coordinator
    FOREACH k IN ARRAY ARRAY['xml', 'bin', 'keras'] LOOP
      -- few versions have a Keras file
      FOR i IN 1 .. coalesce(jsonb_array_length(f->(k || '_parts')), 0) LOOP
        part_digest := f->(k || '_parts')->>(i - 1);
        INSERT INTO dbinfer_private.model_part VALUES (new_id, k, i, part_digest);
      END LOOP;
    END LOOP;
  END LOOP;
  IF activate THEN
    UPDATE dbinfer_private.model m SET active = new_version WHERE m.name = model_name;
  END IF;
  IF NOT EXISTS (SELECT 1 FROM dbinfer_private.setting s WHERE s.name = 'default_model') THEN
    PERFORM dbinfer_private.set_setting('default_model', model_name);
  END IF;
  PERFORM dbinfer_private.forget();
  RETURN new_version;
END $$;
COMMENT ON FUNCTION dbinfer_private.add_version(text, jsonb, boolean, text) IS 'registers a version whose parts are stored, and activates it where asked';
REVOKE ALL ON FUNCTION dbinfer_private.add_version(text, jsonb, boolean, text) FROM PUBLIC;
