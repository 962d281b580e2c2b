-- dbinfer.draw before 0.5.0, which had no argument `lines`: what users had made with it holds on to it under this name.
CREATE OR REPLACE FUNCTION dbinfer._draw_found(img bytea, detections dbinfer.detection[] DEFAULT NULL, mask bytea DEFAULT NULL)
RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._draw(CASE WHEN detections IS NOT NULL OR mask IS NOT NULL THEN img END,
                     pg_catalog.json_build_array(detections)::pg_catalog.text, mask, dbinfer._resolve('', false /* greenplum: OR img IS NULL */))
$$;
COMMENT ON FUNCTION dbinfer._draw_found(bytea, dbinfer.detection[], bytea) IS 'internal: dbinfer.draw in views that were made before 0.5.0';
GRANT EXECUTE ON FUNCTION dbinfer._draw_found(bytea, dbinfer.detection[], bytea) TO PUBLIC;
