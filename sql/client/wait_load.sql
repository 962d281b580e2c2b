SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('dbinfer load'), pg_catalog.hashtext(%(table)s))
