-- The rows to label that have no label yet, in their order, with what the model sees in them.
SELECT {key}, {proposal}, {score}
  FROM {todo} t
 WHERE {version} AND NOT EXISTS (SELECT 1 FROM {labels} l WHERE {same})
 ORDER BY {order} LIMIT {limit}
