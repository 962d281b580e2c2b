-- A table laid out as `dbinfer load` makes them; `pad` leaves one row a page where rows are few, so that workers, who
-- take pages, share them evenly at the end.
CREATE TABLE {table} (id bigint, img bytea, pad text)
/* postgresql: WITH (fillfactor = 10, parallel_workers = {workers}) */
/* greenplum: DISTRIBUTED BY (id) */;
ALTER TABLE {table} ALTER COLUMN img SET STORAGE EXTERNAL;
ALTER TABLE {table} ALTER COLUMN pad SET STORAGE PLAIN;
