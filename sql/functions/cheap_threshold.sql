-- Thresholds are tested from the highest down until one fails, on one sample. They are fixed before, so each test may spend the whole error
-- (fixed sequence testing: Maurer et al. 1995; Angelopoulos et al. 2021).
CREATE OR REPLACE FUNCTION dbinfer.cheap_threshold(images regclass, small text, large text, agreement double precision DEFAULT 0.995,
  confidence double precision DEFAULT 0.95, sample integer DEFAULT 2000, img_column name DEFAULT 'img')
RETURNS TABLE(threshold double precision, answered double precision, agreed double precision, scored bigint)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1 COST 1000000 AS $$
DECLARE
  wanted pg_catalog.float8;
  everything bigint;
  -- how likely so few answers of the large network's rivals would be wrong, were the agreement no better than wanted: a binomial distribution
  -- that is summed up as far as answers are wrong, by the logarithm of its next part
  chance pg_catalog.float8 := 0;
  part pg_catalog.float8;
  counted bigint := 0;
  tried pg_catalog.float8;
  sure bigint;
  wrong bigint;
  doing pg_catalog.text := pg_catalog.format('dbinfer.cheap_threshold was reading %s.', images);
  told pg_catalog.text;
  hinted pg_catalog.text;
BEGIN
  IF images IS NULL OR small IS NULL OR large IS NULL OR img_column IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: %s is NULL', CASE WHEN images IS NULL THEN 'the table' WHEN img_column IS NULL THEN 'the column' ELSE 'a model' END),
      HINT = 'For example: SELECT * FROM dbinfer.cheap_threshold(''images'', ''small'', ''large'')';
  ELSIF NOT coalesce(agreement OPERATOR(pg_catalog.>=) 0.5 AND agreement OPERATOR(pg_catalog.<=) 0.9999, false) THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: agreement is %s, but must be from 0.5 to 0.9999', coalesce(agreement::pg_catalog.text, 'NULL'));
  ELSIF NOT coalesce(confidence OPERATOR(pg_catalog.>=) 0.5 AND confidence OPERATOR(pg_catalog.<=) 0.9999, false) THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: confidence is %s, but must be from 0.5 to 0.9999', coalesce(confidence::pg_catalog.text, 'NULL'));
  END IF;
  -- of fewer rows not one may differ, and that would still prove too little
  wanted := pg_catalog.ceil(pg_catalog.ln(1 OPERATOR(pg_catalog.-) confidence) OPERATOR(pg_catalog./) pg_catalog.ln(agreement));
  IF coalesce(sample, 0) OPERATOR(pg_catalog.<) wanted THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: sample is %s, but %s rows or more are needed to show an agreement of %s at a confidence of %s',
        coalesce(sample::pg_catalog.text, 'NULL'), wanted, agreement, confidence), HINT = 'Three times as many find a better threshold.';
  END IF;
  IF pg_catalog.to_regclass('pg_temp.dbinfer_sample') IS NOT NULL THEN
    DROP TABLE pg_temp.dbinfer_sample;
  END IF;
  EXECUTE pg_catalog.format('SELECT pg_catalog.count(*) FROM %s', images) INTO everything;
  -- some more, for it is a matter of chance how many are taken; OFFSET 0: each network is asked once
  EXECUTE pg_catalog.format('CREATE TEMPORARY TABLE dbinfer_sample ON COMMIT DROP AS
      SELECT (s.small).score AS dbinfer_score, coalesce((s.small).label, (s.small).class::pg_catalog.text) OPERATOR(pg_catalog.=) coalesce((s.large).label, (s.large).class::pg_catalog.text) AS dbinfer_same
        FROM (SELECT dbinfer.classify(%I, %L, ''null'') AS small, dbinfer.classify(%I, %L, ''null'') AS large FROM %s WHERE pg_catalog.random() OPERATOR(pg_catalog.<) %s OFFSET 0) s',
    img_column, small, img_column, large, images, (sample OPERATOR(pg_catalog.+) (3 OPERATOR(pg_catalog.*) pg_catalog.sqrt(sample))) OPERATOR(pg_catalog./) greatest(everything, 1));
  -- an image that cannot be read has no answer of either
  SELECT pg_catalog.count(s.dbinfer_same) INTO scored FROM pg_temp.dbinfer_sample s;
  IF scored OPERATOR(pg_catalog.<) wanted THEN
    RAISE no_data_found USING MESSAGE = pg_catalog.format('dbinfer: %s rows of %s could be scored, but %s are needed to show an agreement of %s at a confidence of %s', scored, images, wanted, agreement, confidence),
      HINT = 'Ask for a lower agreement, or take a larger sample or table.';
  END IF;
  part := scored OPERATOR(pg_catalog.*) pg_catalog.ln(agreement);
  threshold := 'Infinity';
  answered := 0;
  agreed := 1;
  -- so many eighths of a decade from certainty; scores of f32 are no finer above
  FOR step IN REVERSE 56..0 LOOP
    tried := 1 OPERATOR(pg_catalog.-) (10 OPERATOR(pg_catalog.^) (step OPERATOR(pg_catalog./) -8.0));
    SELECT pg_catalog.count(*), pg_catalog.count(CASE WHEN NOT s.dbinfer_same THEN 1 END) INTO sure, wrong FROM pg_temp.dbinfer_sample s
     WHERE s.dbinfer_same IS NOT NULL AND s.dbinfer_score OPERATOR(pg_catalog.>=) tried;
    WHILE counted OPERATOR(pg_catalog.<=) wrong LOOP
      chance := chance OPERATOR(pg_catalog.+) pg_catalog.exp(greatest(part, -700));
      part := part OPERATOR(pg_catalog.+) pg_catalog.ln(greatest(scored OPERATOR(pg_catalog.-) counted, 1e-9) OPERATOR(pg_catalog.*) (1 OPERATOR(pg_catalog.-) agreement)
          OPERATOR(pg_catalog./) ((counted OPERATOR(pg_catalog.+) 1) OPERATOR(pg_catalog.*) agreement));
      counted := counted OPERATOR(pg_catalog.+) 1;
    END LOOP;
    EXIT WHEN chance OPERATOR(pg_catalog.>) (1 OPERATOR(pg_catalog.-) confidence);
    threshold := tried;
    answered := sure OPERATOR(pg_catalog./) scored::pg_catalog.float8;
    agreed := 1 OPERATOR(pg_catalog.-) (wrong OPERATOR(pg_catalog./) scored::pg_catalog.float8);
  END LOOP;
  DROP TABLE pg_temp.dbinfer_sample;
  RAISE NOTICE USING MESSAGE = CASE WHEN answered OPERATOR(pg_catalog.>) 0
    THEN pg_catalog.format('dbinfer: with a threshold of %s %s answers %s %% of %s rows, and %s the rest; agreement at least %s at a confidence of %s',
        threshold, small, pg_catalog.round((100 OPERATOR(pg_catalog.*) answered)::numeric, 1), scored, large, agreement, confidence)
    ELSE pg_catalog.format('dbinfer: no threshold shows an agreement of %s at a confidence of %s on %s rows: %s differs too often where it is sure', agreement, confidence, scored, small) END;
  RETURN NEXT;
-- include shared/raise_again.sql
END $$;
COMMENT ON FUNCTION dbinfer.cheap_threshold(regclass, text, text, double precision, double precision, integer, name) IS
  'the lowest threshold with which dbinfer.cheaply agrees with the large network on so great a part of the rows, at this confidence, by scoring a sample with both: how much of it the small one answers, and how much agreed, e.g. SELECT threshold FROM dbinfer.cheap_threshold(''images'', ''small'', ''large'')';
GRANT EXECUTE ON FUNCTION dbinfer.cheap_threshold(regclass, text, text, double precision, double precision, integer, name) TO PUBLIC;
