-- Leaves every segment of Greenplum equally many rows: hashing 300 keys does not, and the busiest segment would decide.
DELETE FROM {table} WHERE id IN (
  SELECT id FROM (SELECT id, pg_catalog.row_number() OVER (PARTITION BY gp_segment_id ORDER BY id) AS place FROM {table}) t
   WHERE place > %(each)s)
