-- The result of one function for each row, as a new table. OFFSET 0 keeps the call a single one where the columns of
-- its result are taken apart; the plan stays parallel (PostgreSQL) and local to the segments (Greenplum).
CREATE TABLE {scratch} AS
SELECT {key}, {columns}
  FROM (SELECT {key}, {call} AS result
          FROM {table} source
         WHERE (
{where}
               ) AND {missing}
        OFFSET 0) scored
/* greenplum: DISTRIBUTED BY ({key}) */
