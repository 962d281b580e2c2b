-- What `dbinfer deploy` lets a model take when it is tried; backends read the same settings themselves.
CREATE OR REPLACE FUNCTION dbinfer._limits() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT coalesce(json_object_agg(s.name, s.value), '{}') FROM dbinfer_private.setting s
           WHERE s.name IN ('max_compile_seconds', 'max_inference_seconds', 'max_model_mb'));
END $$;
COMMENT ON FUNCTION dbinfer._limits() IS 'internal: the settings that bound the trial of a model, as JSON';
REVOKE ALL ON FUNCTION dbinfer._limits() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dbinfer._limits() TO dbinfer_admin;
