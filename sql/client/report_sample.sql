-- The results of one version with the labels of their images: of all keys, or of those that their hash chooses. The hash
-- chooses the same keys for every version and every time, and whole rows of images stay where they are.
SELECT {key}, i.{first_key} IS NOT NULL, {label}, {result}
  FROM {predictions} p LEFT JOIN {table} i ON {same}
 WHERE {version}
   AND (pg_catalog.hashtext(pg_catalog.array_to_string({key}, '/')) OPERATOR(pg_catalog.&) 1048575)
       OPERATOR(pg_catalog.<) {part}
