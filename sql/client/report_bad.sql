-- The bad rows of one version, the last ones first.
SELECT {key}, p.reason::pg_catalog.text
  FROM {errors} p
 WHERE {version}
 ORDER BY p.at DESC, 1
 LIMIT {limit}
