-- One function, no overload: install takes a second function of a name for another user's.
CREATE OR REPLACE FUNCTION dbinfer.draw(img bytea, detections dbinfer.detection[] DEFAULT NULL, mask bytea DEFAULT NULL,
  lines dbinfer.text_line[] DEFAULT NULL, instances dbinfer.instance[] DEFAULT NULL)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._draw(CASE WHEN detections IS NOT NULL OR mask IS NOT NULL OR lines IS NOT NULL OR instances IS NOT NULL THEN img END,
                     pg_catalog.json_build_array(detections, lines, instances)::pg_catalog.text, mask, dbinfer._resolve('', false /* greenplum: OR img IS NULL */))
$$;
COMMENT ON FUNCTION dbinfer.draw(bytea, dbinfer.detection[], bytea, dbinfer.text_line[], dbinfer.instance[]) IS
  'the image as a PNG with boxes, labels and scores drawn on it, with lines of text (lines => dbinfer.read(img, ...)), with the masks or keypoints of objects (instances => dbinfer.instances(img)), or with a mask laid over it (mask => dbinfer.segment(img)), e.g. SELECT dbinfer.draw(img, dbinfer.detect(img, ''finder'')) FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.draw(bytea, dbinfer.detection[], bytea, dbinfer.text_line[], dbinfer.instance[]) TO PUBLIC;
