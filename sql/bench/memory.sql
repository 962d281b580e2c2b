-- /proc/self/smaps_rollup of the processes that score
SELECT pg_catalog.pg_read_file('/proc/self/smaps_rollup', 0, 4096) /* greenplum: FROM gp_dist_random('gp_id') */
