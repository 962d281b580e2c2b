-- Scores one image under a token; the result leaves as text. A process that lacks the token (a Greenplum segment) admits
-- itself, but never where plpy would crash it: on a coordinator above a Motion, in a PostgreSQL parallel worker.
CREATE OR REPLACE FUNCTION dbinfer._text(task text, img bytea, token text, on_error text, k integer) RETURNS text
LANGUAGE plpython3u STABLE PARALLEL SAFE COST 10000 AS $$
tickets = GD.setdefault("dbinfer.tickets", {})
if token not in tickets:
    import ctypes; c = ctypes.PyDLL(None)
    if (ctypes.c_int.in_dll(c, "Gp_role").value == 2) if hasattr(c, "Gp_role") else c.IsInParallelMode() & 255: plpy.error("dbinfer cannot resolve the model in this place of the plan", hint="Write the model's name as a constant.", sqlstate="55000")
    plpy.execute(plpy.prepare("SELECT dbinfer._gate($1), dbinfer._admit($1, $1)", ["text"]), [token or ""])
return tickets[token].run(plpy, task, img, on_error, k)
$$;
COMMENT ON FUNCTION dbinfer._text(text, bytea, text, text, integer) IS 'internal: scores one image; call dbinfer.predict and its sisters';
ALTER FUNCTION dbinfer._text(text, bytea, text, text, integer) OWNER TO dbinfer_owner;
