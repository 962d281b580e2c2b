# The only look-up of a row: a token is worth nothing without a ticket of this process
ticket = GD.get("dbinfer.tickets", {}).get(token)
if ticket is None:
    # greenplum6: raise type("dbinfer", (plpy.SPIError,), {"__module__": "builtins", "spidata": (50856066, None, "Call a documented function such as dbinfer.predict; those whose names begin with _ are internal.", None, 0)})("unknown model token")
    plpy.error("dbinfer: unknown model token", hint="Call a documented function such as dbinfer.predict; those whose names begin with _ are internal.", sqlstate="22023")
    # :greenplum6
