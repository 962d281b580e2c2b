-- Greenplum: the columns by which rows are spread.
SELECT a.attname::pg_catalog.text
  FROM pg_catalog.gp_distribution_policy d
  JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) d.localoid AND a.attnum OPERATOR(pg_catalog.=) ANY (d.distkey)
 WHERE d.localoid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(%(table)s)::pg_catalog.oid
