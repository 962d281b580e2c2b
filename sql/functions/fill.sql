-- A trigger for any table: plpgsql cannot name a field of NEW that it learns only here, hence EXECUTE and json, which
-- leaves the other fields as they are. Not SECURITY DEFINER: who writes the row needs the right to the model.
CREATE OR REPLACE FUNCTION dbinfer.fill() RETURNS trigger LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  usage constant text := 'CREATE TRIGGER scored BEFORE INSERT OR UPDATE OF img ON images FOR EACH ROW EXECUTE FUNCTION dbinfer.fill(''label'', ''img'', ''digits'')';
  target oid;
  img bytea;
  found text;
BEGIN
  IF TG_WHEN <> 'BEFORE' OR TG_LEVEL <> 'ROW' OR TG_OP NOT IN ('INSERT', 'UPDATE') OR TG_NARGS NOT BETWEEN 2 AND 4 THEN
    RAISE trigger_protocol_violated USING HINT = usage,
      MESSAGE = 'dbinfer.fill is a trigger BEFORE INSERT OR UPDATE, FOR EACH ROW, with the arguments: column to fill, column of images, model, on_error';
  END IF;
  target := (SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = TG_RELID AND a.attname = TG_ARGV[0] AND a.attnum > 0 AND NOT a.attisdropped);
  IF target IS NULL OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = TG_RELID AND a.attname = TG_ARGV[1]
                                      AND a.atttypid = 'bytea'::regtype AND NOT a.attisdropped) THEN
    RAISE undefined_column USING HINT = usage, MESSAGE = CASE WHEN target IS NULL
      THEN format('table %s has no column %I for dbinfer.fill', TG_RELID::regclass, TG_ARGV[0])
      ELSE format('table %s has no column %I of type bytea for dbinfer.fill', TG_RELID::regclass, TG_ARGV[1]) END;
  END IF;
  EXECUTE format('SELECT ($1).%I', TG_ARGV[1]) INTO img USING NEW;
  found := dbinfer._text('fill', img, dbinfer._resolve(TG_ARGV[2], img IS NULL), coalesce(TG_ARGV[3], 'error'),
                         (target = 'dbinfer.classification'::regtype)::integer);
  RETURN json_populate_record(NEW, json_build_object(TG_ARGV[0], found));
END $$;
COMMENT ON FUNCTION dbinfer.fill() IS
  'trigger that fills a column with the label of the image (or the mask, embedding, detections) when a row is written; a fourth argument ''null'' lets damaged images pass, e.g. CREATE TRIGGER scored BEFORE INSERT OR UPDATE OF img ON images FOR EACH ROW EXECUTE FUNCTION dbinfer.fill(''label'', ''img'', ''digits'')';
GRANT EXECUTE ON FUNCTION dbinfer.fill() TO PUBLIC;
