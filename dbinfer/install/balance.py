"""Whether work is spread evenly: tables and scoring over the segments, processes over a host's cores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg2
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor
from psycopg2.extensions import quote_ident

from dbinfer.database.backends import Check
from dbinfer.database.platform import Platform

# Threads per core: up to this many cost little; each one beyond adds memory and start-up time, and no speed
TOO_MANY = 2.0
PLACES = "SELECT host, cores, threads FROM dbinfer.segments"
# The leader also scores; a server may start fewer workers than a plan asks for
PROCESSES = """
SELECT 1 + least(pg_catalog.current_setting('max_parallel_workers_per_gather')::pg_catalog.int4,
                 pg_catalog.current_setting('max_parallel_workers')::pg_catalog.int4,
                 pg_catalog.current_setting('max_worker_processes')::pg_catalog.int4)
"""
ENGINE = "dbinfer install --isolation always: one engine a host keeps within its cores"
CLUSTER = f"Have fewer segments on a host (gpexpand to more hosts), or {ENGINE}"
SINGLE = "ALTER DATABASE {} SET max_parallel_workers_per_gather = {}; then dbinfer install --threads auto"


@dataclass(frozen=True)
class Host:
    """A host: how many processes score there at once, with how many threads each, on how many cores."""

    name: str
    processes: int
    threads: int
    cores: int

    @property
    def load(self) -> float:
        """Return the threads that score at once for each core."""
        return self.processes * self.threads / self.cores

    def __str__(self) -> str:
        each = "1 thread each" if self.threads == 1 else f"{self.threads} threads each"
        return f"{self.name}: {self.processes} processes score at once, {each}, on {self.cores} cores"


def crowded_hosts(conn: Connection, platform: Platform, settings: Mapping[str, str]) -> list[Check]:
    """Return the check of all hosts; none where this role cannot see which segments share one.

    Args:
        settings: of the database, as far as this role may read them.
    """
    if platform.mpp:
        hosts = _cluster(conn)
        return [check_crowding(hosts, CLUSTER, settings)] if hosts else []
    server = _server(conn)
    name = quote_ident(conn.info.dbname, conn)
    return [check_crowding([server], SINGLE.format(name, max(0, server.cores - 1)), settings)]


def check_crowding(hosts: list[Host], hint: str, settings: Mapping[str, str]) -> Check:
    """Return the check of the hosts: those above one thread a core are named, above TOO_MANY it fails."""
    worst = max(hosts, key=lambda host: host.load)
    if settings.get("isolation") == "always":
        return Check("load", True, f"{worst}; the engine keeps within the cores")
    crowded = sorted((host for host in hosts if host.load > 1), key=lambda host: host.load, reverse=True)
    if not crowded:
        return Check("load", True, str(worst))
    return Check("load", worst.load <= TOO_MANY, "; ".join(map(str, crowded)), hint)


def _cluster(conn: Connection) -> list[Host]:
    with conn.cursor() as cur:
        cur.execute(PLACES)
        rows = cur.fetchall()
    places = [row for row in rows if row[0] is not None]
    return [
        Host(name, len(here), max(threads for _, _, threads in here), here[0][1])
        for name in sorted({host for host, _, _ in places})
        if (here := [row for row in places if row[0] == name])
    ]


def _server(conn: Connection) -> Host:
    with conn.cursor() as cur:
        cur.execute(PROCESSES)
        (processes,) = cur.fetchone() or (1,)
        cur.execute(PLACES)
        _, cores, threads = cur.fetchone() or (None, 1, 1)
    return Host("this server", processes, threads, cores)


# Of a segment's share, which is the average; hashing alone gives less from a few hundred rows on
TOO_FULL = 1.5
# Bytes above its share; fewer are scored in a moment wherever they lie
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
# pg_class as each segment has it, where a table has the same oid; the size includes what is stored out of line
SIZES = """
SELECT c.oid, c.gp_segment_id, pg_catalog.pg_table_size(c.oid)
  FROM gp_dist_random('pg_catalog.pg_class') c WHERE c.oid = ANY (%s::pg_catalog.oid[])
"""
SKEW_HINT = "ALTER TABLE {} SET DISTRIBUTED BY (a column that differs in every row, such as id)"


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
        """Return whether the skew costs noticeable time."""
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
            # also ends the time limit
            cur.execute("ROLLBACK TO SAVEPOINT dbinfer_skew")
    return [check_skew(found)]


def check_skew(found: list[Spread]) -> Check:
    """Return the check of the tables."""
    skewed = sorted((one for one in found if one.skewed), key=lambda one: one.excess, reverse=True)
    if not skewed:
        return Check("skew", True, f"{len(found)} tables of images, none of them uneven")
    more = f"; and {len(skewed) - NAMED} more" if len(skewed) > NAMED else ""
    return Check("skew", False, "; ".join(map(str, skewed[:NAMED])) + more, SKEW_HINT.format(skewed[0].table))


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


# What scores, and the place of the image among its arguments
CALLS = {
    "_output": 0,
    "_output_bytes": 0,
    "_text": 1,
    "_bytes": 1,
    "_text_of_row": 2,
    "_draw": 0,
    "draw": 0,
    "_crop": 0,
    "_read": 0,
    "_frames": 0,
    "_tiles": 0,
    "_take": 3,
    "_image": 0,
    "_fetch_ahead": 0,
}
BEGIN = re.compile(rf"\bdbinfer\.({'|'.join(CALLS)})\(")
TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[(),]|[^'\"(),]+")
LITERAL = re.compile(r"'(?:[^']|'')*'(?:::\w+)?")
NAME = r'(?:[^\W\d]\w*|"(?:[^"]|"")*")'
COLUMN = re.compile(rf"(?:{NAME}\.)?({NAME})")
MOTION_CURE = (
    "Score in an inner query and do everything else outside: "
    "SELECT sum(p[1]) FROM (SELECT dbinfer.predict(img, 'model') AS p FROM images OFFSET 0) s"
)


@dataclass(frozen=True)
class Call:
    """A call that scores, as a plan shows it: its text, and the image in it, whose columns may be renamed below."""

    text: str
    image: str
    renamed: bool = field(default=False, compare=False)

    @property
    def columns(self) -> set[str]:
        """Return the names in the image's expression, without the tables'."""
        return set(COLUMN.findall(LITERAL.sub("", self.image)))


def moving_images(conn: Connection, query: str) -> Check:
    """Return the check of a statement, which is planned and not run."""
    with conn.cursor() as cur:
        cur.execute("EXPLAIN (VERBOSE, FORMAT JSON) " + query)
        ((found,),) = cur.fetchall()
    return check_motion(found[0]["Plan"])


def check_motion(plan: dict[str, Any]) -> Check:
    """Return the check of a plan."""
    if not _calls_below(plan):
        hidden = "A function that the planner does not inline (plpgsql, STRICT) hides its calls."
        return Check("query", True, "its plan shows no call that scores images", hidden)
    found = sorted(set(_moves(plan, frozenset())))
    if not found:
        return Check("query", True, "images are scored where they lie")
    return Check("query", False, "images move before they are scored: " + "; ".join(found), MOTION_CURE)


def _moves(node: dict[str, Any], above: frozenset[Call]) -> Iterator[str]:
    """Say what moves images to calls above it; calls that the plan below it also has were computed there."""
    kind = node["Node Type"]
    if "Motion" in kind:
        sent = {match[1] for item in node.get("Output", ()) if (match := COLUMN.fullmatch(item))}
        where = "to one process" if kind == "Gather Motion" else "between segments"
        for call in above - _calls_below(node):
            if call.columns & sent or (call.renamed and sent):
                yield f"{call.image} {where} ({kind}, of which the planner expects {node['Plan Rows']} rows)"
    here = frozenset(_below_subquery(call, node) for call in above | _calls_of(node))
    for part in node.get("Plans", ()):
        # the value of a subquery is no row of the outer one
        apart = part.get("Parent Relationship") in ("InitPlan", "SubPlan")
        yield from _moves(part, frozenset() if apart else here)


def _below_subquery(call: Call, node: dict[str, Any]) -> Call:
    renames = node["Node Type"] == "Subquery Scan" and f"{node['Alias']}." in call.image
    return replace(call, renamed=True) if renames else call


def _calls_below(node: dict[str, Any]) -> frozenset[Call]:
    return _calls_of(node).union(*(_calls_below(part) for part in node.get("Plans", ())))


def _calls_of(node: dict[str, Any]) -> frozenset[Call]:
    """Return the calls in a node's own expressions."""
    values = [value for name, value in node.items() if name != "Plans"]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return frozenset(call for text in texts if isinstance(text, str) for call in _calls_in(text))


def _calls_in(text: str) -> Iterator[Call]:
    for begin in BEGIN.finditer(text):
        arguments = _arguments(text, begin.end())
        yield Call(f"{begin[1]}({','.join(arguments)})", arguments[CALLS[begin[1]]].strip())


def _arguments(text: str, begin: int) -> list[str]:
    """Return the arguments of the call whose parenthesis opens before `begin`."""
    found, depth = [""], 0
    for token in TOKEN.finditer(text, begin):
        if token[0] == ")" and depth == 0:
            break
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == "," and depth == 0:
            found.append("")
        else:
            found[-1] += token[0]
    return found
