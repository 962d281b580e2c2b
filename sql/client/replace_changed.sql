-- The row stays, and with it its id and the columns that load does not know.
UPDATE {table} t SET {changes}
  FROM {changed} c
 WHERE t.{path} OPERATOR(pg_catalog.=) c.path AND {which}
