-- What dbinfer.classify_table collects: results of whole batches, and of each process the rows that are left at the end.
CREATE TYPE dbinfer._scored AS (ids bigint[], classes integer[], labels text[], scores real[]);
COMMENT ON TYPE dbinfer._scored IS 'internal: the results of one batch of rows';
ALTER TYPE dbinfer._scored OWNER TO dbinfer_owner;

-- Both have built-in C functions alone, so that a state costs nothing per row and one state of each process moves.
CREATE AGGREGATE dbinfer._collect(dbinfer._scored) (
  SFUNC = pg_catalog.array_append, STYPE = dbinfer._scored[], COMBINEFUNC = pg_catalog.array_cat, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dbinfer._collect(dbinfer._scored) IS 'internal: all values as an array';
ALTER AGGREGATE dbinfer._collect(dbinfer._scored) OWNER TO dbinfer_owner;

-- _last(value, 1, 2000000000): the last value of each process, those of all processes joined
CREATE AGGREGATE dbinfer._last(bytea, integer, integer) (
  SFUNC = pg_catalog.overlay, STYPE = bytea, COMBINEFUNC = pg_catalog.byteacat, PARALLEL = SAFE
);
COMMENT ON AGGREGATE dbinfer._last(bytea, integer, integer) IS 'internal: the last value of each process';
ALTER AGGREGATE dbinfer._last(bytea, integer, integer) OWNER TO dbinfer_owner;
