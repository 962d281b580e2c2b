-- A place for the true mask of each photograph, which dbinfer report finds by this name.
ALTER TABLE strokes ADD COLUMN IF NOT EXISTS truth bytea
