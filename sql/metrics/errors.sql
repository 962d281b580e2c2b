SELECT model, version::text, kind, sum(rows) FROM dbinfer.usage_errors GROUP BY model, version, kind HAVING sum(rows) > 0
 ORDER BY sum(rows) DESC LIMIT 200
