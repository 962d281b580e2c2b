-- One row scored, and then the memory of the process that scored it: columns are computed from left to right
SELECT {call}, pg_catalog.pg_read_file('/proc/self/smaps_rollup', 0, 4096) FROM {table} WHERE id = 1
