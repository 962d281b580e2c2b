    IF answers IS NOT NULL THEN
      EXECUTE pg_catalog.format('INSERT INTO %s (key, question, row_digest, models, %s, scored_at)
          SELECT s.dbinfer_key::pg_catalog.text, $1, s.dbinfer_digest, $2, s.dbinfer_y%s, pg_catalog.clock_timestamp() FROM pg_temp.dbinfer_scored s WHERE s.dbinfer_new AND s.dbinfer_round OPERATOR(pg_catalog.=) $3',
          keeper, CASE WHEN kind OPERATOR(pg_catalog.=) 'boolean' THEN 'answer' ELSE 'number' END, CASE WHEN kind OPERATOR(pg_catalog.=) 'boolean' THEN '::integer::boolean' END)
        USING question, versions, round;
    END IF;
