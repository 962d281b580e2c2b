-- The least certain rows without a label, as many of each class that the model sees as there are of them, up to a number.
-- The key stays in columns of its own: ORCA loses the collation where arrays of text are joined.
SELECT {key}, c.dbinfer_label, c.dbinfer_score, {embedding}
  FROM (SELECT d.*
          FROM (SELECT {p_keys}, p.label::pg_catalog.text AS dbinfer_label, p.score AS dbinfer_score,
                       pg_catalog.row_number() OVER (PARTITION BY p."class" ORDER BY p.score, {p_keys}) AS dbinfer_place
                  FROM {predictions} p JOIN {table} i ON {same}
                 WHERE {version} AND {unlabelled} AND p.score IS NOT NULL) d
         ORDER BY d.dbinfer_place, d.dbinfer_score, {d_keys} LIMIT {pool}) c
       {joined}
 ORDER BY c.dbinfer_score, {c_keys}
