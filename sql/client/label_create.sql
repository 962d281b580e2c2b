-- Types and collations of the key come from the images.
CREATE TABLE {into} AS SELECT {keys} FROM {table} WITH NO DATA /* greenplum: DISTRIBUTED BY ({keys}) */;
ALTER TABLE {into} ADD COLUMN {value} {kind} NOT NULL, ADD COLUMN proposal {kind},
  ADD COLUMN who pg_catalog.text NOT NULL, ADD COLUMN at pg_catalog.timestamptz NOT NULL;
-- apart: Greenplum 6 does not see the columns of the same statement
ALTER TABLE {into} ADD PRIMARY KEY ({keys})
