-- plpgsql, because it may read tables where plpy may not: in parallel workers and above a Motion.
CREATE OR REPLACE FUNCTION dbinfer._admit(model text, note text, given_token text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp /* postgresql: SET jit = off */ AS $$
DECLARE
  -- takes the note, so that a call which fails below leaves none behind
  caller oid := dbinfer_private.caller(model, note);
  settings text;
  wanted integer;
  v record;
  p record;
  token text;
BEGIN
  IF caller IS NULL THEN
    RAISE insufficient_privilege USING MESSAGE = 'dbinfer._admit is internal',
      HINT = 'Call dbinfer.predict, classify, segment, detect or embed.';
  END IF;
  /* greenplum: IF current_setting('gp_role') = 'execute' AND current_setting('gp_contentid') = '-1' THEN
    RETURN dbinfer_private.take_ticket(caller, model, given_token);
  END IF; */
  -- not before: the coordinator's reader may read no table of ours on Greenplum 6
  settings := dbinfer_private.settings_of(caller);
  -- a token says what is wanted and gives no right: the grant is still checked below
  wanted := CASE WHEN given_token IS NOT NULL THEN dbinfer_private.token_version(given_token)
                 -- no model: image_info, which needs the limits alone
                 WHEN model = '' THEN 0
                 ELSE dbinfer_private.find_version(model) END;
  IF wanted = 0 THEN
    -- image() reads them
    settings := dbinfer_private.with_stores(caller, settings);
  ELSE
    SELECT x.id, x.model, x.version, x.xml_digest, x.bin_digest, x.manifest, m.isolation INTO v
      FROM dbinfer_private.model_version x JOIN dbinfer_private.model m ON m.name = x.model WHERE x.id = wanted;
    IF FOUND THEN
      -- before anything is loaded for a role that may not use it
      PERFORM dbinfer_private.check_grant(caller, v.model);
    END IF;
  END IF;
  PERFORM dbinfer_private.load_runtime();
  -- until here nothing depends on what was not found, or not refused
  /* greenplum: IF dbinfer_private.finishing() THEN
    RETURN dbinfer_private.nobodys_ticket();
  END IF; */
  IF wanted = 0 THEN
    RETURN dbinfer_private.ticket(caller, model, 0, settings, given_token);
  ELSIF v.id IS NULL THEN
    PERFORM dbinfer_private.require_registry();
    RAISE undefined_object USING MESSAGE = 'a version of a model was dropped while this statement ran', HINT = 'Run the statement again.';
  END IF;
  IF dbinfer_private.need_model(v.xml_digest, v.bin_digest, settings) THEN
    PERFORM dbinfer_private.require_registry();
    FOR p IN SELECT m.kind, d.data FROM dbinfer_private.model_part m JOIN dbinfer_private.part d ON d.digest = m.digest
             -- the files are written in this order, part after part; a Keras file is for training alone
             WHERE m.version_id = v.id AND m.kind <> 'keras' ORDER BY m.kind, m.part LOOP
      PERFORM dbinfer_private.feed_part(p.kind, p.data);
    END LOOP;
    PERFORM dbinfer_private.finish_model();
    -- the same, for the parts
    /* greenplum: IF dbinfer_private.finishing() THEN
      RETURN dbinfer_private.nobodys_ticket();
    END IF; */
  END IF;
  token := dbinfer_private.ticket(caller, model, v.id, json_build_object('model', v.model, 'version', v.version,
    'xml_digest', v.xml_digest, 'bin_digest', v.bin_digest, 'manifest', v.manifest, 'isolation', v.isolation,
    'settings', settings::json)::text, given_token);
  IF settings::json->>'usage' = 'on' THEN
    PERFORM dbinfer_private.count_usage(token, caller);
  END IF;
  RETURN token;
END $$;
COMMENT ON FUNCTION dbinfer._admit(text, text, text) IS 'internal: admits the caller to a model and makes this backend ready for it';
GRANT EXECUTE ON FUNCTION dbinfer._admit(text, text, text) TO PUBLIC;
