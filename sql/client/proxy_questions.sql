-- The questions that a table of answers has kept, the one answered last first: how many answers are true or false, and how many true.
SELECT a.question, pg_catalog.count(a.answer), pg_catalog.count(CASE WHEN a.answer THEN 1 END)
  FROM {answers} a
 -- an empty part is at no place on Greenplum 7
 WHERE {part} OPERATOR(pg_catalog.=) '' OR pg_catalog.strpos(a.question, {part}) OPERATOR(pg_catalog.>) 0
 GROUP BY a.question
 ORDER BY pg_catalog.max(a.scored_at) DESC
