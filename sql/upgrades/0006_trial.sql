-- What a version took when it was tried at deploy; NULL for versions that came without a trial. Backends try them all.
ALTER TABLE dbinfer_private.model_version ADD COLUMN trial jsonb;
COMMENT ON COLUMN dbinfer_private.model_version.trial IS 'compile_milliseconds, milliseconds of one image with one thread, peak_bytes; NULL where it was not tried at deploy';
