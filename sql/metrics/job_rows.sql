SELECT model, sum(done), sum(errors), sum(reused) FROM dbinfer.jobs WHERE model IS NOT NULL
 GROUP BY model ORDER BY max(started_at) DESC LIMIT 200
