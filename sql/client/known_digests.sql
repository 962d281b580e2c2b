-- What the images of some paths are. Each is hashed where it lies; Greenplum 6 has no sha256 (dbinfer.images.table knows by the length).
SELECT t.path, t.digest
  FROM (SELECT {path} AS path, /* greenplum6: pg_catalog.decode(pg_catalog.md5({img}), 'hex') */ pg_catalog.sha256({img}) /* :greenplum6 */ AS digest FROM {table}
         WHERE {path} OPERATOR(pg_catalog.=) ANY ({asked}::pg_catalog.text[])) t
