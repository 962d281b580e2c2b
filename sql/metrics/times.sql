SELECT t.model, t.version::text, array_agg(t.seconds ORDER BY t.seconds), array_agg(t.rows ORDER BY t.seconds), max(u.seconds)
  FROM (SELECT model, version, seconds, sum(rows) AS rows FROM dbinfer.usage_times GROUP BY model, version, seconds) t
  JOIN (SELECT model, version, sum(seconds) AS seconds FROM dbinfer.usage GROUP BY model, version) u ON u.model = t.model AND u.version = t.version
 GROUP BY t.model, t.version ORDER BY sum(t.rows) DESC LIMIT 200
