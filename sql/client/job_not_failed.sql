NOT EXISTS (SELECT FROM {errors} failed WHERE {failed_same} AND failed.model OPERATOR(pg_catalog.=) {model} AND failed.version OPERATOR(pg_catalog.=) {version} AND {failed_above} AND {current})
