-- Images that replace those of the same path; without an image it is the time of the file alone that is new.
CREATE TEMPORARY TABLE {changed} (
    path pg_catalog.text,
    img pg_catalog.bytea,
    label pg_catalog.text,
    modified pg_catalog.timestamptz
) ON COMMIT DROP /* greenplum: DISTRIBUTED BY (path) */;
ALTER TABLE {changed} ALTER COLUMN img SET STORAGE EXTERNAL
