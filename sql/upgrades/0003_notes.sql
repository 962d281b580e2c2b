-- A note names who asks by a random number that goes through the expression, not by what a process remembers: the
-- functions that did without it go, where they were made. SQL text names them, so nothing depends on them but what is made anew.
DROP FUNCTION IF EXISTS dbinfer._admit(text, text);
DROP FUNCTION IF EXISTS dbinfer._admit_segment(boolean);
DROP FUNCTION IF EXISTS dbinfer_private.caller(text);
DROP FUNCTION IF EXISTS dbinfer_private.pending();
