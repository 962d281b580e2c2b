-- New results join the old ones; the scratch table goes.
INSERT INTO {into} ({columns}) SELECT {columns} FROM {scratch};
DROP TABLE {scratch};
ANALYZE {into};
