-- Only the answer that is meant: another person may have given another meanwhile.
DELETE FROM {labels} l
 WHERE {this} AND l.who OPERATOR(pg_catalog.=) {who} AND l.at OPERATOR(pg_catalog.=) {at}::pg_catalog.timestamptz
