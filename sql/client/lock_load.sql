-- One load at a time works on a table; the lock ends with the transaction.
SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext('dbinfer load'), pg_catalog.hashtext(%(table)s))
