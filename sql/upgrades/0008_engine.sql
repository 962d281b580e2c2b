-- Where a model runs; NULL means the database's setting `isolation`.
ALTER TABLE dbinfer_private.model ADD COLUMN isolation text;
COMMENT ON COLUMN dbinfer_private.model.isolation IS 'auto, always or never: whether the host''s engine runs it; NULL: as the database''s setting says';
