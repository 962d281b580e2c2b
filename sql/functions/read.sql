CREATE OR REPLACE FUNCTION dbinfer.read(img bytea, detector text, recogniser text, direction text DEFAULT NULL,
  min_score real DEFAULT 0.5, on_error text DEFAULT 'error')
RETURNS dbinfer.text_line[] LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._read(img, dbinfer._resolve(detector, false /* greenplum: OR img IS NULL */), dbinfer._resolve(recogniser, false /* greenplum: OR img IS NULL */),
                     CASE WHEN direction IS NOT NULL THEN dbinfer._resolve(direction, false /* greenplum: OR img IS NULL */) END,
                     dbinfer._resolve('', false /* greenplum: OR img IS NULL */), min_score, on_error)
$$;
COMMENT ON FUNCTION dbinfer.read(bytea, text, text, text, real, text) IS
  'the lines of text in an image, in reading order: text, score and four corners of each; detector: a model that finds lines; recogniser: one that reads a line; direction: one that tells lines upside down (label 180) from others; min_score: lines below are left out, e.g. SELECT id, l.text, l.box FROM images, unnest(dbinfer.read(img, ''lines'', ''letters'')) l';
GRANT EXECUTE ON FUNCTION dbinfer.read(bytea, text, text, text, real, text) TO PUBLIC;
