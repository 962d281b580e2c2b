-- The answers are the caller's own expressions and are computed with the caller's rights. Each row gets a number by chance once; a round
-- scores the rows of each stratum whose number lies between two bounds, which the runtime's session/sampling sets. Without merge joins: see find.
CREATE OR REPLACE FUNCTION dbinfer.estimate(images regclass, answer text, within double precision DEFAULT 0.01,
  confidence double precision DEFAULT 0.95, "by" text DEFAULT NULL, proxy text DEFAULT NULL, id_column name DEFAULT 'id',
  answers text DEFAULT NULL)
RETURNS TABLE(part text, estimate double precision, low double precision, high double precision, unknown double precision,
  scored bigint, rows bigint) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10 COST 1000000 /* greenplum: SET enable_mergejoin = off */ AS $$
DECLARE
  kind pg_catalog.text;
  question CONSTANT pg_catalog.text := pg_catalog.format('%s: %s', images, answer);
  versions pg_catalog.text;
  keeper regclass;
  kept pg_catalog.text;
  chance pg_catalog.text := 'pg_catalog.random()';
  digest pg_catalog.text := 'NULL::pg_catalog.text';
  share pg_catalog.float8 := 1;
  round integer := 0;
  countable pg_catalog.text;
  state pg_catalog.text;
  found pg_catalog.json;
  told_at pg_catalog.timestamptz := pg_catalog.clock_timestamp();
  -- to a sample of the proxy's values: strata are finer at both ends, where rare answers gather
  edges CONSTANT pg_catalog.float8[] := '{0.004,0.016,0.06,0.25,0.5,0.75,0.94,0.984,0.996}';
  stratum pg_catalog.text := '0';
  doing pg_catalog.text := pg_catalog.format('dbinfer.estimate was reading %s.', images);
  told pg_catalog.text;
  hinted pg_catalog.text;
BEGIN
  IF coalesce(within, 0) OPERATOR(pg_catalog.<=) 0 OR within OPERATOR(pg_catalog.=) 'NaN' THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: within is %s, but must be more than 0', coalesce(within::pg_catalog.text, 'NULL')),
      HINT = 'For example within => 0.01: one per cent more or less.';
  ELSIF NOT coalesce(confidence OPERATOR(pg_catalog.>=) 0.5 AND confidence OPERATOR(pg_catalog.<=) 0.9999, false) THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: confidence is %s, but must be from 0.5 to 0.9999', coalesce(confidence::pg_catalog.text, 'NULL'));
  ELSIF images IS NULL OR answer IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: %s is NULL', CASE WHEN images IS NULL THEN 'the table' ELSE 'the answer' END),
      HINT = 'For example: SELECT * FROM dbinfer.estimate(''images'', $q$ (dbinfer.classify(img)).label = ''7'' $q$)';
  END IF;
  -- The type alone: no row is scored. By a cursor, which refuses a second statement, as _condition does; a line of its own ends a comment.
  FOR kind IN EXECUTE pg_catalog.format(E'SELECT pg_catalog.pg_typeof(s.y) FROM (SELECT 1) o LEFT JOIN (SELECT (%s\n) AS y, (%s\n), (%s\n) FROM %s LIMIT 0) s ON true',
      answer, coalesce("by", 'NULL'), coalesce(proxy, 'NULL'), images) LOOP
    NULL;
  END LOOP;
  IF kind OPERATOR(pg_catalog.<>) ALL ('{boolean,smallint,integer,bigint,numeric,real,"double precision"}'::pg_catalog.text[]) THEN
    RAISE datatype_mismatch USING MESSAGE = pg_catalog.format('dbinfer: the answer is of type %s, but must be true or false, or a number', kind),
      HINT = 'For example: (dbinfer.classify(img)).label = ''7''';
  END IF;
  IF pg_catalog.to_regclass('pg_temp.dbinfer_sample') IS NOT NULL THEN
    DROP TABLE pg_temp.dbinfer_sample;
  END IF;
  IF pg_catalog.to_regclass('pg_temp.dbinfer_scored') IS NOT NULL THEN
    DROP TABLE pg_temp.dbinfer_scored;
  END IF;
  countable := CASE WHEN kind OPERATOR(pg_catalog.=) 'boolean' THEN '::integer' ELSE '' END;
-- include shared/answers.sql
  EXECUTE pg_catalog.format('SELECT pg_catalog.count(*) FROM %s', images) INTO rows;
  -- A share needs at most 1 / (4 within^2) rows for each square of the normal distribution's quantile, which is less than 2 ln(1 / (1 - confidence)).
  -- What is never asked for is not kept: of a million rows that saves most of the time.
  IF "by" IS NULL AND proxy IS NULL AND kind OPERATOR(pg_catalog.=) 'boolean' THEN
    share := least(1, (1000 OPERATOR(pg_catalog.-) (0.75 OPERATOR(pg_catalog.*) pg_catalog.ln(1 OPERATOR(pg_catalog.-) confidence)
                           OPERATOR(pg_catalog./) (within OPERATOR(pg_catalog.*) within))) OPERATOR(pg_catalog./) greatest(rows, 1));
  END IF;
  -- half: a bit of the number far behind those that say when the row's turn is
  EXECUTE pg_catalog.format(E'CREATE TEMPORARY TABLE dbinfer_sample ON COMMIT DROP AS SELECT %I AS dbinfer_key, (%s\n)::pg_catalog.text AS dbinfer_part,
      (%s\n)::pg_catalog.float8 AS dbinfer_proxy, %s OPERATOR(pg_catalog.*) %s AS dbinfer_at, (pg_catalog.floor(%s OPERATOR(pg_catalog.*) 67108864)::bigint OPERATOR(pg_catalog.%%) 2)::integer AS dbinfer_half
      FROM %s%s', id_column, coalesce("by", 'NULL'), coalesce(proxy, 'NULL'), chance, CASE WHEN answers IS NULL THEN share ELSE 1 END, chance, images,
    CASE WHEN share OPERATOR(pg_catalog.<) 1 THEN pg_catalog.format(' WHERE %s OPERATOR(pg_catalog.<) %s', chance, share) END);
  CREATE TEMPORARY TABLE dbinfer_scored ON COMMIT DROP AS SELECT s.dbinfer_part, 0 AS dbinfer_stratum, 0 AS dbinfer_half, s.dbinfer_key, 0::pg_catalog.float8 AS dbinfer_y,
    ''::pg_catalog.text AS dbinfer_digest, true AS dbinfer_new, 0 AS dbinfer_round FROM pg_temp.dbinfer_sample s LIMIT 0;
  IF proxy IS NOT NULL THEN
    -- how many edges lie below: width_bucket is younger than Greenplum 6
    SELECT pg_catalog.format('coalesce(%s, -1)', coalesce(pg_catalog.string_agg(DISTINCT pg_catalog.format('(k.dbinfer_proxy OPERATOR(pg_catalog.>=) %L::pg_catalog.float8)::integer', e.edge),
        ' OPERATOR(pg_catalog.+) '), 'NULL')) INTO stratum
      FROM (SELECT pg_catalog.unnest(pg_catalog.percentile_disc(edges) WITHIN GROUP (ORDER BY k.dbinfer_proxy)) AS edge FROM pg_temp.dbinfer_sample k
             WHERE k.dbinfer_proxy IS NOT NULL AND k.dbinfer_at OPERATOR(pg_catalog.<) (1e4 OPERATOR(pg_catalog./) greatest(rows, 1))) e WHERE e.edge IS NOT NULL;
  END IF;
  EXECUTE pg_catalog.format('SELECT pg_catalog.json_build_object(''share'', $1, ''within'', $2, ''confidence'', $3, ''cells'', coalesce(pg_catalog.json_agg(c), ''[]''))
      FROM (SELECT k.dbinfer_part AS part, %s AS stratum, k.dbinfer_half AS half, %s AS rows, 0 AS upto, 0 AS taken, 0 AS known, 0 AS total, 0 AS squares
              FROM pg_temp.dbinfer_sample k GROUP BY 1, 2, 3) c', stratum,
      CASE WHEN share OPERATOR(pg_catalog.<) 1 THEN pg_catalog.format('%s OPERATOR(pg_catalog./) 2.0', rows) ELSE 'pg_catalog.count(*)' END)
     INTO state USING kind OPERATOR(pg_catalog.=) 'boolean', within, confidence;
  LOOP
    state := dbinfer._text('sampling', pg_catalog.convert_to(pg_catalog.format('[%s, %s]', state, coalesce(found, '[]')), 'UTF8'), dbinfer._resolve('', false), 'error', 0);
    -- for dbinfer report, which draws how the interval shrinks
    RAISE DEBUG USING MESSAGE = 'dbinfer: a round of dbinfer.estimate', DETAIL = state::pg_catalog.json OPERATOR(pg_catalog.->) 'groups';
    EXIT WHEN NOT (state::pg_catalog.json OPERATOR(pg_catalog.->>) 'more')::boolean;
    IF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) told_at OPERATOR(pg_catalog.>) '10 seconds'::pg_catalog.interval THEN
      RAISE NOTICE USING MESSAGE = (SELECT pg_catalog.format('dbinfer: %s of %s rows scored%s', pg_catalog.sum(r.scored), pg_catalog.sum(r.rows)::bigint,
          CASE WHEN pg_catalog.count(*) OPERATOR(pg_catalog.=) 1 AND pg_catalog.count(r.low) OPERATOR(pg_catalog.=) 1 THEN pg_catalog.format(': %s to %s', pg_catalog.round(pg_catalog.min(r.low)::numeric, 4), pg_catalog.round(pg_catalog.max(r.high)::numeric, 4)) END)
        FROM pg_catalog.json_to_recordset(state::pg_catalog.json OPERATOR(pg_catalog.->) 'groups') r(low pg_catalog.float8, high pg_catalog.float8, scored bigint, rows pg_catalog.float8));
      told_at := pg_catalog.clock_timestamp();
    END IF;
    round := round OPERATOR(pg_catalog.+) 1;
    EXECUTE pg_catalog.format(E'INSERT INTO pg_temp.dbinfer_scored SELECT c.part, c.stratum, c.half, k.dbinfer_key, CASE WHEN dbinfer_kept_key IS NULL THEN (%s\n)%s::pg_catalog.float8 ELSE dbinfer_kept%s::pg_catalog.float8 END, %s, dbinfer_kept_key IS NULL, $2
        FROM pg_temp.dbinfer_sample k JOIN pg_catalog.json_to_recordset($1) c(part pg_catalog.text, stratum integer, half integer, "from" pg_catalog.float8, upto pg_catalog.float8)
          ON c.stratum OPERATOR(pg_catalog.=) %s AND c.half OPERATOR(pg_catalog.=) k.dbinfer_half AND coalesce(c.part, '''') OPERATOR(pg_catalog.=) coalesce(k.dbinfer_part, '''')
         AND (c.part IS NULL) OPERATOR(pg_catalog.=) (k.dbinfer_part IS NULL) AND k.dbinfer_at OPERATOR(pg_catalog.>=) c."from" AND k.dbinfer_at OPERATOR(pg_catalog.<) c.upto
        JOIN %s ON %I OPERATOR(pg_catalog.=) k.dbinfer_key %s',
        answer, countable, countable, digest, stratum, images, id_column, kept)
      USING state::pg_catalog.json OPERATOR(pg_catalog.->) 'cells', round;
-- include shared/keep_answers.sql
    SELECT pg_catalog.json_agg(q) INTO found FROM (
      SELECT s.dbinfer_part AS part, s.dbinfer_stratum AS stratum, s.dbinfer_half AS half, pg_catalog.count(*) AS taken, pg_catalog.count(DISTINCT s.dbinfer_key) AS keys, pg_catalog.count(s.y) AS known,
             coalesce(pg_catalog.sum(s.y), 0) AS total, coalesce(pg_catalog.sum(s.y OPERATOR(pg_catalog.*) s.y), 0) AS squares
        FROM (SELECT x.*, CASE WHEN x.dbinfer_y OPERATOR(pg_catalog.>) '-Infinity' AND x.dbinfer_y OPERATOR(pg_catalog.<) 'Infinity' THEN x.dbinfer_y END AS y
                FROM pg_temp.dbinfer_scored x WHERE x.dbinfer_round OPERATOR(pg_catalog.=) round) s GROUP BY 1, 2, 3) q;
    IF EXISTS (SELECT FROM pg_catalog.json_to_recordset(found) t(taken bigint, keys bigint) WHERE t.taken OPERATOR(pg_catalog.>) t.keys) THEN
      RAISE data_exception USING MESSAGE = pg_catalog.format('dbinfer: column "%s" of %s has the same value in several rows', id_column, images), HINT = 'Name a key: id_column => ''number''. A table of PostgreSQL that has none has id_column => ''ctid''.';
    END IF;
  END LOOP;
  IF answers IS NOT NULL THEN
    RAISE NOTICE USING MESSAGE = (SELECT pg_catalog.format('dbinfer: %s rows scored, %s known from %s', pg_catalog.count(CASE WHEN s.dbinfer_new THEN 1 END), pg_catalog.count(CASE WHEN NOT s.dbinfer_new THEN 1 END), answers) FROM pg_temp.dbinfer_scored s);
  END IF;
  DROP TABLE pg_temp.dbinfer_sample;
  DROP TABLE pg_temp.dbinfer_scored;
  RETURN QUERY SELECT r.part, r.estimate, r.low, r.high, r.unknown, r.scored, r.rows::bigint FROM pg_catalog.json_to_recordset(state::pg_catalog.json OPERATOR(pg_catalog.->) 'groups')
    r(part pg_catalog.text, estimate pg_catalog.float8, low pg_catalog.float8, high pg_catalog.float8, unknown pg_catalog.float8, scored bigint, rows pg_catalog.float8) ORDER BY r.part;
-- include shared/raise_again.sql
END $$;
COMMENT ON FUNCTION dbinfer.estimate(regclass, text, double precision, double precision, text, text, name, text) IS
  'the share of rows of which an answer is true, or the mean of a number, from as few rows as give it within so much at this confidence; for each value of `by`; a `proxy` that is cheap to compute saves rows; `answers` names a table that keeps what was scored, e.g. SELECT * FROM dbinfer.estimate(''images'', $$ (dbinfer.classify(img, ''digits'')).label = ''7'' $$, within => 0.02)';
GRANT EXECUTE ON FUNCTION dbinfer.estimate(regclass, text, double precision, double precision, text, text, name, text) TO PUBLIC;
