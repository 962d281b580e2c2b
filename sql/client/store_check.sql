-- One image, or that there is none of this name, as every segment gets it. gp_segment_id keeps the call from being folded
-- on the coordinator.
SELECT s.bytes FROM (
  SELECT pg_catalog.octet_length(dbinfer.image(%(reference)s /* greenplum: OPERATOR(pg_catalog.||) pg_catalog.left(gp_segment_id::pg_catalog.text, 0) */,
                                               NULL, 'null')) AS bytes /* greenplum: FROM gp_dist_random('gp_id') */ OFFSET 0
) s
