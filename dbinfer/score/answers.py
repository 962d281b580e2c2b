"""Whose results may answer for a picture that is scored again, with `score --reuse`: which tables, and which versions.

Results are looked up in tables, with the rights of the role that scores, so nobody learns of a table what he may not
read. The owner of a table can write into it what he likes, and a policy on it runs with its reader's rights: so a table
counts by itself if it belongs to the role or to a superuser, and any other one if it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.connection import one
from dbinfer.database.platform import Platform
from dbinfer.database.sql import TableName, read
from dbinfer.score.marks import DIGEST, SHA256_SINCE
from dbinfer.score.options import FUNCTIONS, Function

OURS = {"model": "pg_catalog.text", "version": "integer", "scored_at": "pg_catalog.timestamptz"}


@dataclass(frozen=True)
class Answers:
    """What may answer for a picture besides the job's own table of results.

    Attributes:
        function: whose results they are.
        versions: model and number of those that answer as the job's version does, itself among them.
        tables: number in the catalog and name of each table of results.
        named: the numbers of those that count because the caller has named them.
        role: that scores.
    """

    function: Function
    versions: tuple[tuple[str, int], ...]
    tables: tuple[tuple[int, TableName], ...]
    named: tuple[int, ...]
    role: str

    def held(self, cur: Cursor) -> list[TableName]:
        """Return the tables that the role may still read, each under a lock, so that none is replaced meanwhile."""
        if not self.tables:
            return []
        there = self._there(cur)
        for _, name in there:
            # a statement that is prepared holds its tables; LOCK would end Greenplum's idle readers
            held = "PREPARE dbinfer_held AS SELECT FROM {}; DEALLOCATE dbinfer_held"
            cur.execute(sql.SQL(held).format(name.identifier))
        # who was quicker than the lock is seen here
        return [name for oid, name in self._there(cur) if (oid, name) in there]

    def _there(self, cur: Cursor) -> list[tuple[int, TableName]]:
        return _tables(cur, self.function, self.named, [oid for oid, _ in self.tables])


def find_answers(
    cur: Cursor,
    into: TableName,
    *,
    function: Function,
    version: tuple[str, int],
    also: Sequence[str],
    platform: Platform,
) -> Answers:
    """Return what may answer for a version's pictures.

    Args:
        into: the job's own table of results.
        also: names of tables, as a user writes them, that count whomever they belong to.

    Raises:
        DataError: the server, the function or a named table does not allow it.
    """
    _check(cur, function, platform)
    model, number = version
    cur.execute(read("client/reuse_versions.sql"), {"model": model, "version": number})
    versions = tuple(cur.fetchall())
    named = tuple(_named(cur, TableName.parse(text).resolve(cur), function) for text in also)
    tables = tuple((oid, name) for oid, name in _tables(cur, function, named, None) if name != into)
    cur.execute("SELECT CURRENT_USER::pg_catalog.text")
    return Answers(function, versions or (version,), tables, named, str(one(cur)))


def _check(cur: Cursor, function: Function, platform: Platform) -> None:
    if platform.tables_only:
        raise DataError("--reuse needs a server that scores, and here workers do", "Leave out --reuse.")
    if platform.kernel < SHA256_SINCE:
        raise DataError("--reuse needs SHA-256, which this server does not have", "Leave out --reuse.")
    if not function.model or _ambiguous(function):
        known = ", ".join(name for name, other in FUNCTIONS.items() if other.model and not _ambiguous(other))
        raise UsageError(
            f"--reuse does not know results of {function.name}: their columns do not say how they were made",
            f"Leave out --reuse, or choose one of {known}.",
        )
    cur.execute("SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')")
    if not one(cur):
        raise DataError(
            "--reuse needs a temporary table for each connection, and this role may make none",
            "GRANT TEMPORARY ON DATABASE ... TO the role, or leave out --reuse.",
        )


def _ambiguous(function: Function) -> bool:
    """Return whether another function's results look the same, or a number that is not stored made them."""
    same = [f for f in FUNCTIONS.values() if (f.columns, f.types) == (function.columns, function.types)]
    return function.k or len(same) > 1


def _named(cur: Cursor, name: TableName, function: Function) -> int:
    cur.execute(
        "SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid::pg_catalog.int8",
        (name.identifier.as_string(cur),),
    )
    oid = one(cur)
    if oid is None or not _tables(cur, function, [oid], [oid]):
        raise DataError(
            f"{name} is no table of results of {function.name} with an index on {DIGEST} that you may read",
            "Name a table that dbinfer score --reuse has written, with --reuse-from.",
        )
    return int(oid)


def _tables(
    cur: Cursor, function: Function, named: Sequence[int], among: Sequence[int] | None
) -> list[tuple[int, TableName]]:
    wanted = dict(zip(function.columns, function.types, strict=True)) | OURS | {DIGEST: "pg_catalog.bytea"}
    values = {
        "names": list(wanted),
        "types": list(wanted.values()),
        "named": list(named),
        "among": None if among is None else list(among),
    }
    cur.execute(read("client/reuse_tables.sql"), values)
    return [(int(oid), TableName(schema, name)) for oid, schema, name in cur.fetchall()]
