CREATE OR REPLACE FUNCTION dbinfer._model_files(reference text, note text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.asker_oid('dbinfer worker', note);
  v record;
BEGIN
  SELECT x.*, m.isolation INTO v FROM dbinfer_private.model_version x JOIN dbinfer_private.model m ON m.name = x.model
   WHERE x.id = dbinfer_private.find_version(reference);
  PERFORM dbinfer_private.may_hold(caller, v.model);
  RETURN json_build_object('id', v.id, 'model', v.model, 'version', v.version, 'xml_digest', v.xml_digest, 'bin_digest', v.bin_digest,
    'manifest', v.manifest, 'isolation', v.isolation, 'settings', dbinfer_private.settings_of(caller)::json,
    -- the files are written in this order, part after part
    'parts', (SELECT json_agg(json_build_array(p.kind, p.part) ORDER BY p.kind, p.part) FROM dbinfer_private.model_part p
               WHERE p.version_id = v.id AND p.kind <> 'keras'),
    -- of the file for dbinfer train --from
    'keras_parts', (SELECT count(*) FROM dbinfer_private.model_part p WHERE p.version_id = v.id AND p.kind = 'keras'))::text;
END $$;
COMMENT ON FUNCTION dbinfer._model_files(text, text) IS 'internal: what a worker or a training must know of a model version, and the parts of its files';
GRANT EXECUTE ON FUNCTION dbinfer._model_files(text, text) TO PUBLIC;
