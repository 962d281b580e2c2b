-- What a plan needs of the version that a reference means; no row where there is no such version. An alias begins with a letter.
SELECT v.name, v.version, v.manifest, v.trial
  FROM dbinfer.model_versions v
  JOIN dbinfer.models m ON m.name OPERATOR(pg_catalog.=) v.name
 WHERE CASE WHEN %(name)s IS NULL THEN m.is_default ELSE m.name OPERATOR(pg_catalog.=) %(name)s END
   AND CASE WHEN %(suffix)s IS NULL THEN v.active
            ELSE v.version::pg_catalog.text OPERATOR(pg_catalog.=) %(suffix)s OR %(suffix)s OPERATOR(pg_catalog.=) ANY (v.aliases) END
