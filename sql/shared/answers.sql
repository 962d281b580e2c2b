  -- A table keeps answers, for find and estimate alike: by the caller's own right to it. There a row's number by chance follows from the question
  -- and its key, so that the same question, asked again, meets the rows that are scored.
  IF answers IS NULL THEN
    kept := pg_catalog.format('CROSS JOIN (SELECT NULL::pg_catalog.text AS dbinfer_kept_key, NULL::pg_catalog.%s AS dbinfer_kept) dbinfer_a', CASE WHEN kind OPERATOR(pg_catalog.=) 'boolean' THEN 'bool' ELSE 'float8' END);
  ELSE
    keeper := pg_catalog.to_regclass(answers /* greenplum6: ::cstring */);
    IF keeper IS NULL AND answers OPERATOR(pg_catalog.!~) '^[a-z_][a-z0-9_]*([.][a-z_][a-z0-9_]*)?$' THEN
      RAISE undefined_table USING MESSAGE = pg_catalog.format('dbinfer: the table %s for answers does not exist', answers), HINT = 'Write a plain name, such as kept_answers, to have it made.';
    ELSIF keeper IS NULL THEN
      EXECUTE pg_catalog.format('CREATE TABLE %s (key text, question text, row_digest text, models text, answer boolean, number double precision, scored_at timestamptz)', answers);
      keeper := pg_catalog.to_regclass(answers /* greenplum6: ::cstring */);
    END IF;
    SELECT pg_catalog.string_agg(c, ', ') INTO told FROM pg_catalog.unnest(ARRAY['key', 'question', 'row_digest', 'models', 'scored_at', CASE WHEN kind OPERATOR(pg_catalog.=) 'boolean' THEN 'answer' ELSE 'number' END]) c
     WHERE c OPERATOR(pg_catalog.<>) ALL (ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) keeper AND NOT a.attisdropped));
    IF told IS NOT NULL THEN
      RAISE undefined_column USING MESSAGE = pg_catalog.format('dbinfer: the table %s for answers has no column %s', answers, told), HINT = 'Name a table that does not exist yet: it is made. One that kept no numbers before 0.9.0 takes them after ALTER TABLE ... ADD number double precision.';
    END IF;
    -- whatever version a name means: any activation, alias or default asks anew
    SELECT pg_catalog.md5(pg_catalog.concat(pg_catalog.string_agg(pg_catalog.concat_ws(' ', v.name, v.version, v.active, v.aliases, v.digest), ', ' ORDER BY v.name, v.version),
        (SELECT pg_catalog.string_agg(m.name, ', ') FROM dbinfer.models m WHERE m.is_default))) INTO versions FROM dbinfer.model_versions v;
    digest := pg_catalog.format('pg_catalog.md5((%s.*)::pg_catalog.text)', images);
    chance := pg_catalog.format('((''x'' OPERATOR(pg_catalog.||) pg_catalog.substr(pg_catalog.md5(%L OPERATOR(pg_catalog.||) (%I)::pg_catalog.text), 1, 13))::bit(52)::bigint OPERATOR(pg_catalog./) 4503599627370496::pg_catalog.float8)', question, id_column);
    kept := pg_catalog.format('LEFT JOIN (SELECT a.key AS dbinfer_kept_key, a.row_digest AS dbinfer_kept_digest, %s AS dbinfer_kept FROM %s a
        WHERE a.question OPERATOR(pg_catalog.=) %L AND a.models OPERATOR(pg_catalog.=) %L GROUP BY 1, 2) dbinfer_a
        ON dbinfer_kept_key OPERATOR(pg_catalog.=) k.dbinfer_key::pg_catalog.text AND dbinfer_kept_digest OPERATOR(pg_catalog.=) %s',
      CASE WHEN kind OPERATOR(pg_catalog.=) 'boolean' THEN 'pg_catalog.bool_or(a.answer)' ELSE 'pg_catalog.max(a.number)' END, keeper, question, versions, digest);
  END IF;
