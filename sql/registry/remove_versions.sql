CREATE OR REPLACE FUNCTION dbinfer_private.remove_versions(gone text, gone_version integer) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- by hand: Greenplum does not enforce foreign keys of replicated tables; last_version stays, see add_version
  DELETE FROM dbinfer_private.model_part p WHERE p.version_id IN (SELECT v.id FROM dbinfer_private.model_version v
    WHERE v.model = gone AND (gone_version IS NULL OR v.version = gone_version));
  DELETE FROM dbinfer_private.usage u WHERE u.version_id IN (SELECT v.id FROM dbinfer_private.model_version v
    WHERE v.model = gone AND (gone_version IS NULL OR v.version = gone_version));
  DELETE FROM dbinfer_private.alias a WHERE a.model = gone AND (gone_version IS NULL OR a.version = gone_version);
  DELETE FROM dbinfer_private.model_version v WHERE v.model = gone AND (gone_version IS NULL OR v.version = gone_version);
  UPDATE dbinfer_private.model m SET active = NULL WHERE m.name = gone AND m.active = gone_version;
  IF NOT EXISTS (SELECT 1 FROM dbinfer_private.model_version v WHERE v.model = gone) THEN
    DELETE FROM dbinfer_private.model m WHERE m.name = gone;
    DELETE FROM dbinfer_private.model_grant g WHERE g.model = gone;
    DELETE FROM dbinfer_private.setting s WHERE s.name = 'default_model' AND s.value = gone;
  END IF;
  DELETE FROM dbinfer_private.part d WHERE NOT EXISTS (
    SELECT 1 FROM dbinfer_private.model_part p WHERE p.digest = d.digest);
END $$;
COMMENT ON FUNCTION dbinfer_private.remove_versions(text, integer) IS 'deletes versions with their aliases and the parts that no other version uses';
REVOKE ALL ON FUNCTION dbinfer_private.remove_versions(text, integer) FROM PUBLIC;
