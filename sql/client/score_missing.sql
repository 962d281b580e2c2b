NOT EXISTS (SELECT FROM {into} done WHERE done.{key} OPERATOR(pg_catalog.=) source.{key})
