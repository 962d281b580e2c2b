-- A table whose rows lie where `place` says, most of them on one segment
DROP TABLE IF EXISTS {table};
CREATE TABLE {table} (id bigint, place integer, img bytea)
/* greenplum: DISTRIBUTED BY (place) */;
ALTER TABLE {table} ALTER COLUMN img SET STORAGE EXTERNAL;
