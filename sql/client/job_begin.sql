SELECT dbinfer._begin_job(%(facts)s::pg_catalog.jsonb, dbinfer._ask('dbinfer score')), pg_catalog.clock_timestamp()
