-- As dbinfer.classify, twice with the small network: the second time it remembers its answer. In this form the planner can inline it.
CREATE OR REPLACE FUNCTION dbinfer.cheaply(img bytea, small text, large text, threshold double precision, on_error text DEFAULT 'error')
RETURNS dbinfer.classification LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT CASE WHEN (dbinfer._text('classify', img, dbinfer._resolve(small, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.classification).score OPERATOR(pg_catalog.>=) threshold
            THEN dbinfer._text('classify', img, dbinfer._resolve(small, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.classification
            ELSE dbinfer._text('classify', img, dbinfer._resolve(large, false /* greenplum: OR img IS NULL */), on_error, 0)::dbinfer.classification END
$$;
COMMENT ON FUNCTION dbinfer.cheaply(bytea, text, text, double precision, text) IS
  'best class of an image by a cascade: the small network''s answer where its score is at least the threshold (of dbinfer.cheap_threshold), else the large one''s, e.g. SELECT (dbinfer.cheaply(img, ''small'', ''large'', 0.97)).label FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.cheaply(bytea, text, text, double precision, text) TO PUBLIC;
