"""Finds tables of images that lie unevenly on the segments: a statement takes as long as the fullest of them."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.backends import Check
from dbinfer.platform import Platform

# Of a segment's share, which is the average; hashing alone gives less from a few hundred rows on
TOO_FULL = 1.5
# Above its share; less is scored in a moment wherever it lies
TOO_MANY_BYTES = 16 << 20
NAMED = 3
# An ALTER TABLE or a VACUUM FULL may hold a table for hours
LOCK_WAIT = "SET LOCAL lock_timeout = '2s'"
TABLES = """
SELECT c.oid, pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.gp_distribution_policy p ON p.localoid = c.oid
 WHERE c.relkind = 'r' AND p.policytype = 'p' AND n.nspname !~ '^pg_'
   AND EXISTS (SELECT FROM pg_catalog.pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                  AND a.atttypid = 'pg_catalog.bytea'::pg_catalog.regtype)
"""
# pg_class as each segment has it, where a table has the same oid; the size counts what is stored out of line, too
SIZES = """
SELECT c.oid, c.gp_segment_id, pg_catalog.pg_table_size(c.oid)
  FROM gp_dist_random('pg_catalog.pg_class') c WHERE c.oid = ANY (%s::pg_catalog.oid[])
"""
CURE = "ALTER TABLE {} SET DISTRIBUTED BY (a column that differs in every row, such as id)"


@dataclass(frozen=True)
class Spread:
    """The bytes of a table on each segment."""

    table: str
    bytes: dict[int, int]

    @property
    def fullest(self) -> int:
        """Return the segment that has most."""
        return max(self.bytes, key=lambda segment: self.bytes[segment])

    @property
    def excess(self) -> float:
        """Return how many times its share the fullest segment has."""
        total = sum(self.bytes.values())
        return self.bytes[self.fullest] * len(self.bytes) / total if total else 1.0

    @property
    def skewed(self) -> bool:
        """Return whether that costs time worth a word."""
        above = self.bytes[self.fullest] * (1 - 1 / self.excess)
        return self.excess > TOO_FULL and above > TOO_MANY_BYTES

    def __str__(self) -> str:
        total, part = sum(self.bytes.values()), self.bytes[self.fullest]
        return (
            f"{self.table}: segment {self.fullest} has {part / total:.0%} of {total / 1e6:.1f} MB, "
            f"{self.excess:.1f} times its share"
        )


def skewed_tables(conn: Connection, platform: Platform) -> list[Check]:
    """Return the check of all distributed tables with a column of bytea; none where there are no segments."""
    if not platform.mpp:
        return []
    with conn.cursor() as cur:
        try:
            cur.execute("SAVEPOINT dbinfer_skew")
            cur.execute(LOCK_WAIT)
            found = _spreads(cur)
        except psycopg2.Error as err:
            problem = str(err).strip().splitlines()[0]
            return [Check("skew", True, f"not looked at: {problem}")]
        finally:
            # ends the time limit, too
            cur.execute("ROLLBACK TO SAVEPOINT dbinfer_skew")
    return [check(found)]


def check(found: list[Spread]) -> Check:
    """Return what to say of the tables."""
    skewed = sorted((one for one in found if one.skewed), key=lambda one: one.excess, reverse=True)
    if not skewed:
        return Check("skew", True, f"{len(found)} tables of images, none of them uneven")
    more = f"; and {len(skewed) - NAMED} more" if len(skewed) > NAMED else ""
    return Check("skew", False, "; ".join(map(str, skewed[:NAMED])) + more, CURE.format(skewed[0].table))


def _spreads(cur: Cursor) -> list[Spread]:
    # Two statements: while segments are asked, the coordinator reads no table
    cur.execute(TABLES)
    names = dict(cur.fetchall())
    if not names:
        return []
    cur.execute(SIZES, (list(names),))
    bytes_of: dict[int, dict[int, int]] = {oid: {} for oid in names}
    for oid, segment, size in cur.fetchall():
        bytes_of[oid][segment] = size
    return [Spread(names[oid], sizes) for oid, sizes in bytes_of.items() if sizes]
