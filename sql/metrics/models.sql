-- The size alone: what else is known of a model is for those who may use it.
SELECT name, version::text, task, size FROM dbinfer.models ORDER BY name LIMIT 200
