CREATE OR REPLACE FUNCTION dbinfer.problem(img bytea, model text DEFAULT NULL)
RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('problem', img, dbinfer._resolve(model, false /* greenplum: OR img IS NULL */), 'null', 0)
$$;
COMMENT ON FUNCTION dbinfer.problem(bytea, text) IS
  'why an image cannot be scored, as the error would say it, or NULL; beside a result of the same model the image is scored once, e.g. SELECT (dbinfer.classify(img, ''digits'', ''null'')).label, dbinfer.problem(img, ''digits'') FROM images';
GRANT EXECUTE ON FUNCTION dbinfer.problem(bytea, text) TO PUBLIC;
