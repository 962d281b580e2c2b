-- Task of the model that a reference means: its name, or the default one. Versions and aliases share the name's task.
SELECT m.task FROM dbinfer.models m
 WHERE CASE WHEN %(name)s IS NULL THEN m.is_default ELSE m.name OPERATOR(pg_catalog.=) %(name)s END
