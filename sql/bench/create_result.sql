-- results next to the keys, as people keep them
CREATE TABLE {result} AS SELECT id, {call} AS result FROM {table} /* greenplum: DISTRIBUTED BY (id) */
