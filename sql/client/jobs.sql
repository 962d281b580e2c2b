-- The jobs of dbinfer score that the caller may see, the last first, as one JSON object each.
SELECT pg_catalog.row_to_json(j) FROM (SELECT v.* FROM dbinfer.jobs v ORDER BY v.id DESC LIMIT %(limit)s) j
