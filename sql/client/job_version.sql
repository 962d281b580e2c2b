-- Name and number of the version that a reference means, and the milliseconds an image took in its trial, alone and in a batch; no
-- row where there is no such version. An alias begins with a letter.
SELECT v.name, v.version, (v.trial OPERATOR(pg_catalog.->>) 'milliseconds')::float8, (v.trial OPERATOR(pg_catalog.->>) 'batch_milliseconds')::float8
  FROM dbinfer.model_versions v
  JOIN dbinfer.models m ON m.name OPERATOR(pg_catalog.=) v.name
 WHERE CASE WHEN %(name)s IS NULL THEN m.is_default ELSE m.name OPERATOR(pg_catalog.=) %(name)s END
   AND CASE WHEN %(suffix)s IS NULL THEN v.active
            ELSE v.version::pg_catalog.text OPERATOR(pg_catalog.=) %(suffix)s OR %(suffix)s OPERATOR(pg_catalog.=) ANY (v.aliases) END
