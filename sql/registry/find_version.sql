CREATE OR REPLACE FUNCTION dbinfer_private.find_version(reference text) RETURNS integer
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- what dbinfer.embed_text adds, for the default model to nothing; no name has this sign
  of_text boolean := reference LIKE '%#text';
  wanted text := nullif(regexp_replace(reference, '#text$', ''), CASE WHEN reference LIKE '%#text' THEN '' END);
  base text;
  suffix text;
  number integer;
  found_id integer;
BEGIN
  IF wanted IS NULL THEN
    SELECT s.value INTO wanted FROM dbinfer_private.setting s WHERE s.name = 'default_model';
    IF wanted IS NULL THEN
      PERFORM dbinfer_private.raise_unknown(NULL, NULL);
    END IF;
  END IF;
  IF wanted !~ '^[^@]+(@[^@]+)?$' THEN
    PERFORM dbinfer_private.raise_unknown(wanted, NULL);
  END IF;
  base := split_part(wanted, '@', 1);
  suffix := nullif(split_part(wanted, '@', 2), '');
  IF suffix IS NULL THEN
    SELECT m.active INTO number FROM dbinfer_private.model m WHERE m.name = base;
    IF number IS NULL AND EXISTS (SELECT 1 FROM dbinfer_private.model m WHERE m.name = base) THEN
      RAISE undefined_object USING MESSAGE = format('model "%s" has no active version', base),
        HINT = format('Activate one: dbinfer activate %s@VERSION', base);
    END IF;
  -- never an alias, which begins with a letter; nine digits always fit an integer
  ELSIF suffix ~ '^[0-9]{1,9}$' THEN
    number := suffix::integer;
  ELSE
    SELECT a.version INTO number FROM dbinfer_private.alias a WHERE a.model = base AND a.alias = suffix;
  END IF;
  -- a version of one tower has it for whatever it takes
  SELECT v.id INTO found_id FROM dbinfer_private.model_version v
   WHERE v.model = base AND v.version = number AND (v.tower IS NULL OR of_text)
   ORDER BY v.tower NULLS LAST LIMIT 1;
  IF found_id IS NULL THEN
    PERFORM dbinfer_private.raise_unknown(base, suffix);
  END IF;
  RETURN found_id;
END $$;
COMMENT ON FUNCTION dbinfer_private.find_version(text) IS 'the version id that name, name@3, name@alias or NULL means; NULL on a segment that is finishing';
REVOKE ALL ON FUNCTION dbinfer_private.find_version(text) FROM PUBLIC;
