-- Runs with the caller's rights, so it knows the user whom _admit, with its owner's rights, cannot see. The note is a
-- random number, known only as the value of this call: it cannot be forged, and one that an error left behind is of no
-- use. One at a time: _admit takes it in the same expression. `empty` depends on the row, so that Greenplum's
-- planner does not fold a call that belongs on a segment. Never uses plpy.
CREATE OR REPLACE FUNCTION dbinfer._ask(model text, empty boolean DEFAULT NULL) RETURNS text
/* tables-only: LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
  RETURN (SELECT a.note FROM dbinfer._asker a);
END $$ */
LANGUAGE plpython3u STABLE PARALLEL SAFE AS $$
try:
  # the import takes milliseconds in a new session: most of the time in which a cancel could come there
  import ctypes, os, time
  note, GD["dbinfer.asked"] = os.urandom(16).hex(), time.perf_counter()
  # an oid is unsigned, what ctypes returns is not
  GD["dbinfer.note"] = (note, model, ctypes.PyDLL(None).GetUserId() & 0xFFFFFFFF)
  return note
-- include shared/one_interrupt.sql
$$
/* :tables-only */;
COMMENT ON FUNCTION dbinfer._ask(text, boolean) IS 'internal: notes the caller who asks for a model, once; returns the number by which dbinfer._admit finds the note';
GRANT EXECUTE ON FUNCTION dbinfer._ask(text, boolean) TO PUBLIC;
