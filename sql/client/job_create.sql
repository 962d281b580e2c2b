-- Types and collations of the key come from the source. On Greenplum the results lie where their images lie.
CREATE TABLE {into} AS SELECT {keys} FROM {table} WITH NO DATA /* greenplum: DISTRIBUTED BY ({distribution}) */;
ALTER TABLE {into} ADD COLUMN model pg_catalog.text NOT NULL, ADD COLUMN version integer NOT NULL, {columns};
-- apart: Greenplum 6 does not see the columns of the same statement
ALTER TABLE {into} ADD PRIMARY KEY ({keys}, model, version)
