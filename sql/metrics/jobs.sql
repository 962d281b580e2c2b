SELECT s.state, count(j.id) FROM unnest(ARRAY['running', 'done', 'cancelled', 'failed', 'lost']) AS s(state)
  LEFT JOIN dbinfer.jobs j ON j.state = s.state GROUP BY s.state
