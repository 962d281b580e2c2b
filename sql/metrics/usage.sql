-- No label is a role: there may be any number of them. Of more versions than these, those that were last used the longest ago are left out.
SELECT model, version::text, sum(rows), sum(seconds), extract(epoch FROM max(last_used)) FROM dbinfer.usage
 GROUP BY model, version ORDER BY max(last_used) DESC LIMIT 200
