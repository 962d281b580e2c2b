-- What a worker has found, as rows for job_batch.sql. A row that was changed or deleted since the worker read it stays open.
SELECT {values}, t.dbinfer_empty, t.result::{result_type} AS result
  FROM ROWS FROM ({arrays}) t({columns}, dbinfer_mark, dbinfer_empty, result)
 WHERE {unchanged}
