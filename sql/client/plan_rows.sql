-- Greenplum: how many rows each segment has.
SELECT t.gp_segment_id, pg_catalog.count(*) FROM {table} t GROUP BY 1
