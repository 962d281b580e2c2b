-- Gets tokens, as whatever reads tables runs on the coordinator alone. OFFSET 0 keeps each network from running once a field.
-- coalesce: an ARRAY of no rows is NULL where ORCA plans.
CREATE OR REPLACE FUNCTION dbinfer._read(img bytea, detector text, recogniser text, direction text, plain text, min_score real, on_error text)
RETURNS dbinfer.text_line[] LANGUAGE sql STABLE PARALLEL SAFE COST 1000000 AS $$
SELECT CASE WHEN f.lines IS NOT NULL THEN coalesce(ARRAY(
  SELECT ROW((r.reading).text, (r.reading).score, r.box)::dbinfer.text_line
    FROM (SELECT u.place, u.box,
                 dbinfer._text('read_line', dbinfer._crop(img, pg_catalog.to_json(u.shown)::pg_catalog.text, 0, plain),
                               recogniser, 'error', 0)::dbinfer.reading AS reading
            FROM (SELECT l.place, l.box,
                         -- the same line from its lower right corner on is upside down
                         CASE WHEN (l.side).label OPERATOR(pg_catalog.=) '180' AND (l.side).score OPERATOR(pg_catalog.>=) 0.9
                              THEN l.box[5:8] OPERATOR(pg_catalog.||) l.box[1:4] ELSE l.box END AS shown
                    FROM (SELECT t.place, t.box,
                                 CASE WHEN direction IS NOT NULL THEN
                                   dbinfer._text('classify', dbinfer._crop(img, pg_catalog.to_json(t.box)::pg_catalog.text, 0, plain),
                                                 direction, 'error', 0)::dbinfer.classification END AS side
                            FROM pg_catalog.unnest(f.lines) WITH ORDINALITY AS t(text, score, box, place) OFFSET 0) l
                  OFFSET 0) u
          OFFSET 0) r
   WHERE (r.reading).score OPERATOR(pg_catalog.>=) min_score
   ORDER BY r.place), '{}') END
  FROM (SELECT dbinfer._text('find_text', img, detector, on_error, 0)::dbinfer.text_line[] AS lines OFFSET 0) f
$$;
COMMENT ON FUNCTION dbinfer._read(bytea, text, text, text, text, real, text) IS 'internal: reads one image; call dbinfer.read';
GRANT EXECUTE ON FUNCTION dbinfer._read(bytea, text, text, text, text, real, text) TO PUBLIC;
