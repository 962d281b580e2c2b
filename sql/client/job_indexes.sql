-- Whole, usable btree indexes of a table: whether each is unique, and the numbers of its key columns.
SELECT i.indisunique, pg_catalog.array_to_string((i.indkey::pg_catalog.int2[])[0:x.keys OPERATOR(pg_catalog.-) 1], ',')
  FROM pg_catalog.pg_index i
  -- before PostgreSQL 11 an index had no columns besides its key
  CROSS JOIN LATERAL (SELECT coalesce((pg_catalog.row_to_json(i) OPERATOR(pg_catalog.->>) 'indnkeyatts')::pg_catalog.int4, i.indnatts) AS keys) x
  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
  JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) c.relam
 WHERE i.indrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
   AND i.indisvalid AND i.indpred IS NULL AND m.amname OPERATOR(pg_catalog.=) 'btree'
