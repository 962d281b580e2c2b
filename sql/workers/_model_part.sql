CREATE OR REPLACE FUNCTION dbinfer._model_part(of_version integer, of_kind text, number integer, note text) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  caller oid := dbinfer_private.asker_oid('dbinfer worker', note);
BEGIN
  PERFORM dbinfer_private.may_hold(caller, (SELECT v.model FROM dbinfer_private.model_version v WHERE v.id = of_version));
  RETURN (SELECT d.data FROM dbinfer_private.model_part m JOIN dbinfer_private.part d ON d.digest = m.digest
           WHERE m.version_id = of_version AND m.kind = of_kind AND m.part = number);
END $$;
COMMENT ON FUNCTION dbinfer._model_part(integer, text, integer, text) IS 'internal: one part of a model''s files, for a worker or a training whose role may have them';
GRANT EXECUTE ON FUNCTION dbinfer._model_part(integer, text, integer, text) TO PUBLIC;
