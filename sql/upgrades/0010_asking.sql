-- Who starts a job or deploys a version is noted by dbinfer._ask: the functions that went by session_user go.
DROP FUNCTION IF EXISTS dbinfer._begin_job(jsonb);
DROP FUNCTION IF EXISTS dbinfer._tell_job(bigint, bigint, bigint, bigint, text, text);
DROP FUNCTION IF EXISTS dbinfer._add_version(text, jsonb, boolean);
DROP FUNCTION IF EXISTS dbinfer_private.add_version(text, jsonb, boolean);
