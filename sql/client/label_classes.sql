-- The labels that a column holds.
SELECT DISTINCT {label}::pg_catalog.text FROM {table} WHERE {label} IS NOT NULL LIMIT {limit}
