-- The least certain rows without a label, as many of each class that the model sees as there are of them, up to a number.
SELECT c.key, c.label, c.score, {embedding}
  FROM (SELECT d.key, d.label, d.score, d.place
          FROM (SELECT {key} AS key, p.label::pg_catalog.text AS label, p.score,
                       pg_catalog.row_number() OVER (PARTITION BY p."class" ORDER BY p.score, {key}) AS place
                  FROM {predictions} p JOIN {table} i ON {same}
                 WHERE {version} AND i.{truth} IS NULL AND p.score IS NOT NULL) d
         ORDER BY d.place, d.score, d.key LIMIT {pool}) c
       {joined}
 ORDER BY c.score, c.key
