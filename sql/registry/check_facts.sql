-- What a client, which need not be ours, says of a network that is to be a version or one of its towers.
CREATE OR REPLACE FUNCTION dbinfer_private.check_facts(facts jsonb) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong record;
  head text;
BEGIN
  -- IS NOT TRUE: a missing key gives NULL, which is refused as well
  IF (jsonb_typeof(facts->'manifest') = 'object' AND facts->>'size' ~ '^[0-9]{1,15}$'
      AND facts->>'source_digest' ~ '^[0-9a-f]{64}$' AND facts->>'xml_digest' ~ '^[0-9a-f]{64}$'
      AND facts->>'bin_digest' ~ '^[0-9a-f]{64}$' AND jsonb_typeof(facts->'xml_parts') = 'array'
      AND jsonb_typeof(facts->'bin_parts') = 'array' AND coalesce(jsonb_typeof(facts->'keras_parts'), 'array') = 'array'
      AND coalesce(jsonb_typeof(facts->'trial'), 'object') = 'object') IS NOT TRUE THEN
    RAISE data_exception USING MESSAGE = 'a version needs a manifest, a size, three digests and the lists of its parts',
      HINT = 'Deploy with: dbinfer deploy model.xml';
  END IF;
  -- every key that a view or a command reads. Any text or number is accepted: one that makes no sense breaks nothing
  SELECT k.part, k.name, k.type INTO wrong
    FROM (VALUES ('manifest', 'task', 'string', true), ('manifest', 'height', 'number', true), ('manifest', 'width', 'number', true),
                 ('manifest', 'channels', 'number', false), ('manifest', 'name', 'string', false),
                 ('manifest', 'color', 'string', false), ('manifest', 'resize', 'string', false),
                 ('manifest', 'interpolation', 'string', false), ('manifest', 'precision', 'string', false),
                 ('manifest', 'activation', 'string', false), ('manifest', 'decode', 'string', false),
                 ('manifest', 'pad_value', 'number', false), ('manifest', 'threshold', 'number', false),
                 ('manifest', 'iou_threshold', 'number', false), ('manifest', 'max_detections', 'number', false),
                 ('manifest', 'l2_normalize', 'boolean', false), ('manifest', 'mean', 'array', false),
                 ('manifest', 'scale', 'array', false), ('manifest', 'labels', 'array', false),
                 ('manifest', 'outputs', 'array', false), ('manifest', 'metrics', 'object', false),
                 ('manifest', 'provenance', 'object', false), ('trial', 'milliseconds', 'number', false),
                 ('trial', 'batch_milliseconds', 'number', false), ('trial', 'compile_milliseconds', 'number', false),
                 ('trial', 'peak_bytes', 'number', false), ('trial', 'by_threads', 'object', false),
                 ('trial', 'precision', 'object', false)) AS k(part, name, type, needed)
   WHERE CASE WHEN facts->k.part->k.name IS NULL THEN k.needed
              -- what a trial could not find is null
              WHEN k.part = 'trial' AND jsonb_typeof(facts->k.part->k.name) = 'null' THEN false
              ELSE jsonb_typeof(facts->k.part->k.name) <> k.type END
   LIMIT 1;
  IF FOUND THEN
    RAISE data_exception USING MESSAGE = format('the %s''s %s is %s, but must be of the type %s', wrong.part, wrong.name,
        coalesce(left((facts->wrong.part->wrong.name)::text, 60), 'missing'), wrong.type),
      HINT = 'Deploy with: dbinfer deploy model.xml';
  END IF;
  IF EXISTS (SELECT 1 FROM jsonb_array_elements(facts->'manifest'->'labels') l WHERE jsonb_typeof(l.value) <> 'string') THEN
    RAISE data_exception USING MESSAGE = 'the manifest''s labels is a list of other things than texts',
      HINT = 'Deploy with: dbinfer deploy model.xml';
  END IF;
  IF EXISTS (SELECT 1 FROM (SELECT jsonb_array_elements_text(facts->'xml_parts') AS digest
                    UNION ALL SELECT jsonb_array_elements_text(facts->'bin_parts')
                    UNION ALL SELECT jsonb_array_elements_text(facts->'keras_parts')) d
              WHERE NOT EXISTS (SELECT 1 FROM dbinfer_private.part p WHERE p.digest = d.digest)) THEN
    RAISE data_exception USING MESSAGE = 'a part of the version is missing', HINT = 'Deploy with: dbinfer deploy model.xml';
  END IF;
  -- OpenVINO recognizes a file by its content: an ONNX file would run under the name model.xml. The same in the runtime's tried.py
  SELECT encode(substr(p.data, 1, 512), 'escape') INTO head
    FROM dbinfer_private.part p WHERE p.digest = facts->'xml_parts'->>0;
  IF (head ~ '^[[:space:]]*(<[?]xml[^>]*>[[:space:]]*)?<net[[:space:]>]') IS NOT TRUE THEN
    RAISE data_exception USING MESSAGE = 'the xml file is not an OpenVINO IR', HINT = 'Convert the model first: dbinfer convert';
  END IF;
END $$;
COMMENT ON FUNCTION dbinfer_private.check_facts(jsonb) IS 'raises where the facts of a version are not whole, or its parts are not stored';
REVOKE ALL ON FUNCTION dbinfer_private.check_facts(jsonb) FROM PUBLIC;
