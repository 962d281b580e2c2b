-- Batches of every function, as dbinfer._take gives them; what classify_table collected in memory is gone.
CREATE TYPE dbinfer._results AS (ids bigint[], texts text[], files bytea[], handed bigint);
COMMENT ON TYPE dbinfer._results IS 'internal: the results of one batch of rows, as text or bytes; how many rows this process has handed over in whole batches';

DROP FUNCTION IF EXISTS dbinfer._batch(text, bigint, bytea, text, text);
DROP FUNCTION IF EXISTS dbinfer._batch_query(regclass, name, name, text, text);
DROP FUNCTION IF EXISTS dbinfer._batches(regclass, text, text, name, name);
DROP AGGREGATE IF EXISTS dbinfer._collect(dbinfer._scored);
DROP AGGREGATE IF EXISTS dbinfer._last(bytea, integer, integer);
DROP TYPE IF EXISTS dbinfer._scored;
