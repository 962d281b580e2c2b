SELECT host, count(*), count(problem), sum(queue), sum(bytes), sum(requests), sum(errors), sum(restarts) FROM dbinfer.engines GROUP BY host
