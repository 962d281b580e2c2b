CREATE TEMPORARY TABLE {listed} (
    path pg_catalog.text,
    etag pg_catalog.text,
    bytes pg_catalog.int8,
    label pg_catalog.text,
    modified pg_catalog.timestamptz
) ON COMMIT DROP /* greenplum: DISTRIBUTED BY (path) */
