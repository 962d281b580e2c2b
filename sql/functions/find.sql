-- The expressions are the caller's own and are computed with the caller's rights. Each row gets a number by chance once; a round scores the
-- rows of each block of the proxy's values whose number lies between two bounds, which the runtime's session/finding sets. Greenplum would lose
-- rows whose key is a uuid in a merge join: it sorts them otherwise than it compares them.
CREATE OR REPLACE FUNCTION dbinfer.find(images regclass, condition text, proxy text DEFAULT NULL, recall double precision DEFAULT NULL,
  confidence double precision DEFAULT 0.95, precise double precision DEFAULT 1, k bigint DEFAULT NULL, id_column name DEFAULT 'id',
  answers text DEFAULT NULL)
RETURNS TABLE(id bigint, key text, checked boolean) LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 1000 COST 1000000 /* greenplum: SET enable_mergejoin = off */ AS $$
DECLARE
  kind pg_catalog.text;
  state pg_catalog.json;
  found pg_catalog.json;
  -- to a sample of the proxy's values: blocks are finer above, where rare true rows gather
  edges pg_catalog.float8[] := '{0.05,0.1,0.15,0.2,0.25,0.3,0.35,0.4,0.45,0.5,0.55,0.6,0.65,0.7,0.75,0.8,0.85,0.9,0.925,0.95,0.97,0.985,0.992,0.996,0.998,0.999}';
  stratum pg_catalog.text;
  chosen pg_catalog.text;
  everything bigint;
  scored bigint := 0;
  fitting bigint := 0;
  unclear bigint;
  round integer := 0;
  question CONSTANT pg_catalog.text := pg_catalog.format('%s: %s', images, condition);
  versions pg_catalog.text;
  keeper regclass;
  kept pg_catalog.text;
  chance pg_catalog.text := 'pg_catalog.random()';
  digest pg_catalog.text := 'NULL::pg_catalog.text';
  more bigint;
  -- first k: rows come in the order of the proxy, and of chance where it is the same; those before these two are scored
  last_proxy pg_catalog.float8 := 'Infinity';
  last_at pg_catalog.float8 := -1;
  next_proxy pg_catalog.float8;
  next_at pg_catalog.float8;
  told_at pg_catalog.timestamptz := pg_catalog.clock_timestamp();
  doing pg_catalog.text := pg_catalog.format('dbinfer.find was reading %s.', images);
  told pg_catalog.text;
  hinted pg_catalog.text;
BEGIN
  IF images IS NULL OR condition IS NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: %s is NULL', CASE WHEN images IS NULL THEN 'the table' ELSE 'the condition' END),
      HINT = 'For example: SELECT id FROM dbinfer.find(''images'', $q$ (dbinfer.classify(img)).label = ''7'' $q$, proxy => ''octet_length(img)'')';
  ELSIF k OPERATOR(pg_catalog.<) 1 THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: k is %s, but must be 1 or more', k);
  ELSIF k IS NOT NULL AND (recall IS NOT NULL OR precise OPERATOR(pg_catalog.<>) 1) THEN
    RAISE invalid_parameter_value USING MESSAGE = 'dbinfer: find gives the first k rows, or a recall, but was asked for both';
  ELSIF NOT coalesce(recall OPERATOR(pg_catalog.>) 0 AND recall OPERATOR(pg_catalog.<=) 1, recall IS NULL) THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: recall is %s, but must be more than 0 and at most 1', recall);
  ELSIF NOT coalesce(precise OPERATOR(pg_catalog.>) 0 AND precise OPERATOR(pg_catalog.<=) 1, false) THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: precise is %s, but must be more than 0 and at most 1', coalesce(precise::pg_catalog.text, 'NULL'));
  ELSIF NOT coalesce(confidence OPERATOR(pg_catalog.>=) 0.5 AND confidence OPERATOR(pg_catalog.<=) 0.9999, false) THEN
    RAISE invalid_parameter_value USING MESSAGE = pg_catalog.format('dbinfer: confidence is %s, but must be from 0.5 to 0.9999', coalesce(confidence::pg_catalog.text, 'NULL'));
  END IF;
  -- The type alone: no row is scored. By a cursor, which refuses a second statement, as _condition does; a line of its own ends a comment.
  FOR kind IN EXECUTE pg_catalog.format(E'SELECT pg_catalog.pg_typeof(s.y) FROM (SELECT 1) o LEFT JOIN (SELECT (%s\n) AS y, (%s\n)::pg_catalog.float8 FROM %s LIMIT 0) s ON true',
      condition, coalesce(proxy, 'NULL'), images) LOOP
    NULL;
  END LOOP;
  IF kind OPERATOR(pg_catalog.<>) 'boolean' THEN
    RAISE datatype_mismatch USING MESSAGE = pg_catalog.format('dbinfer: the condition is of type %s, but must be true or false', kind),
      HINT = 'For example: (dbinfer.classify(img)).label = ''7''';
  END IF;
  IF pg_catalog.to_regclass('pg_temp.dbinfer_sample') IS NOT NULL THEN
    DROP TABLE pg_temp.dbinfer_sample;
  END IF;
  IF pg_catalog.to_regclass('pg_temp.dbinfer_scored') IS NOT NULL THEN
    DROP TABLE pg_temp.dbinfer_scored;
  END IF;
-- include shared/answers.sql
  EXECUTE pg_catalog.format(E'CREATE TEMPORARY TABLE dbinfer_sample ON COMMIT DROP AS SELECT %I AS dbinfer_key,
      coalesce(nullif((%s\n)::pg_catalog.float8, ''NaN''), ''-Infinity'') AS dbinfer_proxy, %s AS dbinfer_at FROM %s', id_column, coalesce(proxy, 'NULL'), chance, images);
  CREATE TEMPORARY TABLE dbinfer_scored ON COMMIT DROP AS
    SELECT s.dbinfer_key, s.dbinfer_proxy, 0 AS dbinfer_stratum, 0 AS dbinfer_round, true AS dbinfer_y, ''::pg_catalog.text AS dbinfer_digest, true AS dbinfer_new FROM pg_temp.dbinfer_sample s LIMIT 0;
  SELECT pg_catalog.count(*) INTO everything FROM pg_temp.dbinfer_sample;
  SELECT coalesce(pg_catalog.array_agg(e.edge ORDER BY e.edge), '{}') INTO edges
    FROM (SELECT DISTINCT pg_catalog.unnest(pg_catalog.percentile_disc(edges) WITHIN GROUP (ORDER BY s.dbinfer_proxy)) AS edge FROM pg_temp.dbinfer_sample s
           WHERE s.dbinfer_at OPERATOR(pg_catalog.<) (2e4 OPERATOR(pg_catalog./) greatest(everything, 1))) e WHERE e.edge IS NOT NULL;
  -- how many edges lie below: width_bucket is younger than Greenplum 6
  SELECT pg_catalog.format('(%s)', coalesce(pg_catalog.string_agg(pg_catalog.format('(k.dbinfer_proxy OPERATOR(pg_catalog.>=) %L::pg_catalog.float8)::integer', e), ' OPERATOR(pg_catalog.+) '), '0'))
    INTO stratum FROM pg_catalog.unnest(edges) e;
  EXECUTE pg_catalog.format('SELECT pg_catalog.json_build_object(''recall'', $1, ''precision'', $2, ''confidence'', $3, ''cells'', coalesce(pg_catalog.json_agg(c), ''[]''))
      FROM (SELECT %s AS stratum, pg_catalog.count(*) AS rows FROM pg_temp.dbinfer_sample k GROUP BY 1) c', stratum)
     INTO state USING coalesce(recall, 0.95), precise, confidence;
  chosen := CASE WHEN k IS NULL
    THEN pg_catalog.format('JOIN pg_catalog.json_to_recordset($1) c(stratum integer, "from" pg_catalog.float8, upto pg_catalog.float8)
         ON c.stratum OPERATOR(pg_catalog.=) %s AND k.dbinfer_at OPERATOR(pg_catalog.>=) c."from" AND k.dbinfer_at OPERATOR(pg_catalog.<) c.upto', stratum)
    ELSE 'JOIN (SELECT 1) c ON (k.dbinfer_proxy OPERATOR(pg_catalog.<) $3 OR k.dbinfer_proxy OPERATOR(pg_catalog.=) $3 AND k.dbinfer_at OPERATOR(pg_catalog.>) $4)
          AND (k.dbinfer_proxy OPERATOR(pg_catalog.>) $5 OR k.dbinfer_proxy OPERATOR(pg_catalog.=) $5 AND k.dbinfer_at OPERATOR(pg_catalog.<=) $6)' END;
  LOOP
    IF k IS NULL THEN
      state := dbinfer._text('finding', pg_catalog.convert_to(pg_catalog.format('[%s, %s]', state, coalesce(found, '[]')), 'UTF8'), dbinfer._resolve('', false), 'error', 0);
      EXIT WHEN NOT (state OPERATOR(pg_catalog.->>) 'more')::boolean;
    ELSE
      EXIT WHEN fitting OPERATOR(pg_catalog.>=) k OR scored OPERATOR(pg_catalog.>=) everything OR next_proxy IS NULL AND round OPERATOR(pg_catalog.>) 0;
      -- as many as are likely to hold what is wanting; at most twice as many as so far
      more := least(greatest(2 OPERATOR(pg_catalog.*) scored, k), pg_catalog.ceil((k OPERATOR(pg_catalog.-) fitting) OPERATOR(pg_catalog.*) (scored OPERATOR(pg_catalog.+) 1.0) OPERATOR(pg_catalog./) (fitting OPERATOR(pg_catalog.+) 1)));
      next_proxy := NULL;
      SELECT s.dbinfer_proxy, s.dbinfer_at INTO next_proxy, next_at FROM pg_temp.dbinfer_sample s
       WHERE s.dbinfer_proxy OPERATOR(pg_catalog.<) last_proxy OR s.dbinfer_proxy OPERATOR(pg_catalog.=) last_proxy AND s.dbinfer_at OPERATOR(pg_catalog.>) last_at
       ORDER BY s.dbinfer_proxy DESC, s.dbinfer_at OFFSET greatest(more, 1) OPERATOR(pg_catalog.-) 1 LIMIT 1;
    END IF;
    IF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) told_at OPERATOR(pg_catalog.>) '10 seconds'::pg_catalog.interval THEN
      RAISE NOTICE 'dbinfer: % of % rows scored, % of them true', scored, everything, fitting;
      told_at := pg_catalog.clock_timestamp();
    END IF;
    round := round OPERATOR(pg_catalog.+) 1;
    EXECUTE pg_catalog.format(E'INSERT INTO pg_temp.dbinfer_scored SELECT k.dbinfer_key, k.dbinfer_proxy, %s, $2, CASE WHEN dbinfer_kept_key IS NULL THEN (%s\n) ELSE dbinfer_kept END, %s, dbinfer_kept_key IS NULL
        FROM pg_temp.dbinfer_sample k %s JOIN %s ON %I OPERATOR(pg_catalog.=) k.dbinfer_key %s',
        stratum, condition, digest, chosen, images, id_column, kept)
      USING state OPERATOR(pg_catalog.->) 'cells', round, last_proxy, last_at, coalesce(next_proxy, '-Infinity'), coalesce(next_at, 1);
-- include shared/keep_answers.sql
    SELECT coalesce(pg_catalog.json_agg(t), '[]'), coalesce(pg_catalog.sum(t.taken), 0) OPERATOR(pg_catalog.+) scored, coalesce(pg_catalog.sum(t."true"), 0) OPERATOR(pg_catalog.+) fitting
      INTO found, scored, fitting
      FROM (SELECT s.dbinfer_stratum AS stratum, pg_catalog.count(*) AS taken, pg_catalog.count(DISTINCT s.dbinfer_key) AS keys, pg_catalog.count(CASE WHEN s.dbinfer_y THEN 1 END) AS "true"
              FROM pg_temp.dbinfer_scored s WHERE s.dbinfer_round OPERATOR(pg_catalog.=) round GROUP BY 1) t;
    IF EXISTS (SELECT FROM pg_catalog.json_to_recordset(found) t(taken bigint, keys bigint) WHERE t.taken OPERATOR(pg_catalog.>) t.keys) THEN
      RAISE data_exception USING MESSAGE = pg_catalog.format('dbinfer: column "%s" of %s has the same value in several rows', id_column, images), HINT = 'Name a key: id_column => ''number''. A table of PostgreSQL that has none has id_column => ''ctid''.';
    END IF;
    last_proxy := next_proxy;
    last_at := next_at;
  END LOOP;
  SELECT pg_catalog.count(*) INTO unclear FROM pg_temp.dbinfer_scored s WHERE s.dbinfer_y IS NULL;
  told := pg_catalog.format('dbinfer: %s of %s rows scored, %s of them true', scored, everything, fitting)
    OPERATOR(pg_catalog.||) CASE WHEN unclear OPERATOR(pg_catalog.>) 0 THEN pg_catalog.format(', %s without an answer', unclear) ELSE '' END;
  IF answers IS NOT NULL THEN
    SELECT told OPERATOR(pg_catalog.||) pg_catalog.format(', %s known from %s', pg_catalog.count(*), answers) INTO told FROM pg_temp.dbinfer_scored s WHERE NOT s.dbinfer_new;
  END IF;
  IF k IS NULL THEN
    SELECT told OPERATOR(pg_catalog.||) pg_catalog.concat(
        '; ' OPERATOR(pg_catalog.||) CASE WHEN x.accepted OPERATOR(pg_catalog.>) 0 THEN pg_catalog.format('%s with a proxy from %s are taken unseen (at most %s are false)', x.accepted, edges[x.accepted_from], x."false") END,
        '; ' OPERATOR(pg_catalog.||) CASE WHEN x.left_out OPERATOR(pg_catalog.>) 0 THEN pg_catalog.format('%s%s are left out unseen (at most %s are true)', x.left_out, ' with a proxy below ' OPERATOR(pg_catalog.||) edges[x.left_out_below]::pg_catalog.text, x.missed) END,
        pg_catalog.format('; recall at least %s', pg_catalog.round(x.recall::numeric, 3)),
        CASE WHEN precise OPERATOR(pg_catalog.<) 1 THEN pg_catalog.format(', precision at least %s', pg_catalog.round(x."precision"::numeric, 3)) END,
        pg_catalog.format(' at a confidence of %s', confidence),
        CASE WHEN scored OPERATOR(pg_catalog.>) (0.75 OPERATOR(pg_catalog.*) everything) AND everything OPERATOR(pg_catalog.>) 500 THEN '; the proxy saved little' END) INTO told
      FROM pg_catalog.json_to_record(state OPERATOR(pg_catalog.->) 'explained') x(accepted bigint, accepted_from integer, "false" bigint, left_out bigint, left_out_below integer, missed bigint,
        recall pg_catalog.float8, "precision" pg_catalog.float8);
  END IF;
  RAISE NOTICE USING MESSAGE = told;
  RETURN QUERY EXECUTE pg_catalog.format('SELECT CASE WHEN pg_catalog.pg_typeof(f.key) OPERATOR(pg_catalog.=) ANY (''{smallint,integer,bigint}''::pg_catalog.regtype[]) THEN f.key::pg_catalog.text::bigint END, f.key::pg_catalog.text, f.checked
      FROM (SELECT s.dbinfer_key AS key, s.dbinfer_proxy AS proxy, true AS checked FROM pg_temp.dbinfer_scored s WHERE s.dbinfer_y
            UNION ALL
            SELECT k.dbinfer_key, k.dbinfer_proxy, false FROM pg_temp.dbinfer_sample k
              JOIN pg_catalog.json_to_recordset($1) c(stratum integer, upto pg_catalog.float8, accepted boolean) ON c.accepted AND c.stratum OPERATOR(pg_catalog.=) %s AND k.dbinfer_at OPERATOR(pg_catalog.>=) c.upto) f
     ORDER BY f.proxy DESC LIMIT $2', stratum)
    USING CASE WHEN k IS NULL THEN state OPERATOR(pg_catalog.->) 'cells' ELSE '[]' END, k;
  DROP TABLE pg_temp.dbinfer_sample;
  DROP TABLE pg_temp.dbinfer_scored;
-- include shared/raise_again.sql
END $$;
COMMENT ON FUNCTION dbinfer.find(regclass, text, text, double precision, double precision, double precision, bigint, name, text) IS
  'the rows that fulfil a condition: at least the part `recall` of them, at this confidence, by scoring few rows where a `proxy` that is cheap to compute is high for them; with `precise` below 1, so great a part of what it returns fulfils it, and the rest is not checked; or the first `k` that do; `answers` names a table that keeps what was scored, e.g. SELECT id FROM dbinfer.find(''images'', $$ (dbinfer.classify(img, ''digits'')).label = ''7'' $$, proxy => ''octet_length(img)'', recall => 0.95)';
GRANT EXECUTE ON FUNCTION dbinfer.find(regclass, text, text, double precision, double precision, double precision, bigint, name, text) TO PUBLIC;
