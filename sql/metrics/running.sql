SELECT source, target, sum(rate), sum(total - done), max(extract(epoch FROM clock_timestamp() - updated_at))
  FROM dbinfer.jobs WHERE state = 'running' GROUP BY source, target ORDER BY min(started_at) LIMIT 100
