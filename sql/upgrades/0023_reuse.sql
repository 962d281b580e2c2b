-- How many rows of a job got an answer that was there; NULL: its client has not said so. The function takes one argument more.
ALTER TABLE dbinfer_private.job ADD COLUMN reused bigint;
DROP FUNCTION IF EXISTS dbinfer._tell_job(bigint, bigint, bigint, bigint, text, text, text);
