-- The held-out digits many times over: enough work to see several processes share it.
CREATE TABLE IF NOT EXISTS many_images /* postgresql: WITH (parallel_workers = 64) */ AS
SELECT i.id, i.img FROM images i CROSS JOIN generate_series(1, 100) n
/* greenplum: DISTRIBUTED RANDOMLY */
