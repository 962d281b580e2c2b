-- The versions of a model: what it is, where it comes from; the active one first.
SELECT v.version, v.active, v.aliases, v.manifest, v.created_at, v.created_by::pg_catalog.text, v.size, v.digest::pg_catalog.text
  FROM dbinfer.model_versions v
 WHERE v.name OPERATOR(pg_catalog.=) %(name)s
 ORDER BY v.active DESC, v.version DESC
