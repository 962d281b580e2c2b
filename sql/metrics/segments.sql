-- The segments of a host share its cache.
SELECT host, count(*), count(problem), max(cache_bytes), min(cache_free) FROM dbinfer.segments GROUP BY host
