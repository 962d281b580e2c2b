-- Runs with the rights of who asks, so it knows the user whom _admit, with its owner's rights, cannot see. The note is a
-- random number that leaves as the value of this call alone: nobody can forge it, and one that an error left behind is
-- known to nobody. One at a time: _admit takes it in the same expression. `empty` depends on the row, so that Greenplum's
-- planner does not fold a call that belongs on a segment. Never uses plpy.
CREATE OR REPLACE FUNCTION dbinfer._ask(model text, empty boolean DEFAULT NULL) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE AS $$
import ctypes, os, time
note, GD["dbinfer.asked"] = os.urandom(16).hex(), time.perf_counter()
# an oid is unsigned, what ctypes returns is not
GD["dbinfer.note"] = (note, model, ctypes.PyDLL(None).GetUserId() & 0xFFFFFFFF)
return note
$$;
COMMENT ON FUNCTION dbinfer._ask(text, boolean) IS 'internal: notes who asks for a model, once; returns what dbinfer._admit knows the note by';
GRANT EXECUTE ON FUNCTION dbinfer._ask(text, boolean) TO PUBLIC;
