-- A table with keys and results alone becomes one of a job. The defaults are written to no row, so a long table is not rewritten, and
-- its rows keep the transactions that made them.
ALTER TABLE {into} ADD COLUMN model pg_catalog.text NOT NULL DEFAULT {model}, ADD COLUMN version integer NOT NULL DEFAULT {version},
  ADD COLUMN scored_at pg_catalog.timestamptz NOT NULL DEFAULT pg_catalog.now();
ALTER TABLE {into} ALTER COLUMN model DROP DEFAULT, ALTER COLUMN version DROP DEFAULT, ALTER COLUMN scored_at DROP DEFAULT;
-- what ORCA made with CREATE TABLE AS is spread at random, and then no key is unique; only a WARNING where it lies there already
/* greenplum: ALTER TABLE {into} SET DISTRIBUTED BY ({distribution}); */
ALTER TABLE {into} ADD PRIMARY KEY ({keys}, model, version)
