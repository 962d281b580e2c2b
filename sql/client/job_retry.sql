DELETE FROM {errors} failed
 WHERE failed.model OPERATOR(pg_catalog.=) {model} AND failed.version OPERATOR(pg_catalog.=) {version} AND {failed_above} AND {failed_upto}
