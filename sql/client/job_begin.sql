SELECT dbinfer._begin_job(%(facts)s::pg_catalog.jsonb), pg_catalog.clock_timestamp()
