"""score --reuse: what one transaction does so that no picture is scored twice.

A batch notes the digests of its open rows in a temporary table, gives those an answer whose picture has one, scores one
row of each other picture, and gives its answer to the rest. A digest is read before its image is scored, so a row is
scored only if it still shows that picture, in the same statement.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.database.connection import one
from dbinfer.database.sql import TableName, read
from dbinfer.score.marks import DIGEST
from dbinfer.score.statements import SAME, Bound, Listed, Plan, Range
from dbinfer.score.tables import distribution


class InHand:
    """The pictures that a thread has in hand until its transaction ends: others leave their rows to later batches.

    Args:
        all_of_them: what the threads of the job have in hand; they share it, and the lock.
    """

    def __init__(self, all_of_them: set[bytes], lock: threading.Lock) -> None:
        self._all, self._lock = all_of_them, lock
        self._own: set[bytes] = set()

    def take(self, digests: set[bytes]) -> set[bytes]:
        """Take those that no other thread has; return those that others have."""
        with self._lock:
            others = digests & self._all
            self._own = digests - others
            self._all |= self._own
        return others

    def __enter__(self) -> InHand:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._all -= self._own
        self._own = set()


class Pictures:
    """The rows of a batch whose picture has no answer yet."""

    def __init__(self, cur: Cursor, plan: Plan) -> None:
        assert plan.answers is not None
        assert plan.marks is not None
        self._cur, self._plan, self._answers, self._marks = cur, plan, plan.answers, plan.marks
        # of this role, whoever had the session before behind a pooler; and for keys of these types
        kinds = [plan.answers.role, *(c.type for c in plan.key.columns), str(plan.table), *plan.key.names]
        self._name = TableName(
            "pg_temp", f"dbinfer_pictures_{hashlib.sha256(repr(kinds).encode()).hexdigest()[:16]}"
        )
        self._columns = [sql.Identifier(f"dbinfer_k{n}") for n in range(len(plan.key.columns))]

    def note(self, keys: Range | Listed, prefix: str) -> int:
        """Note the open rows of some keys with mark and digest; return how many there are."""
        self._cur.execute("SELECT pg_catalog.to_regclass(%s) IS NULL", (f"pg_temp.{self._name.name}",))
        if one(self._cur):
            spread = (
                self._columns[self._plan.key.names.index(name)]
                for name in distribution(self._cur, self._plan)
            )
            listed = sql.SQL(", ").join(spread)
            self._do("reuse_create", columns=self._listed_as("source"), distribution=listed)
        self._do("reuse_note", prefix, rows=self._plan.open_rows(keys))
        return self._cur.rowcount

    def answer(self, tables: Iterable[TableName]) -> int:
        """Give rows the answers that their pictures have in these tables or in the job's own; return how many."""
        stored = [self._plan.into, *tables]
        answers = sql.SQL(" UNION ALL ").join(
            sql.SQL("({})").format(self._format("reuse_answers", stored=name.identifier)) for name in stored
        )
        known = "reuse_known_segments" if self._plan.platform.mpp else "reuse_known"
        self._do("reuse_copy", self._by_index, known=self._format(known, answers=answers))
        found = self._cur.rowcount
        if found:
            self._do("reuse_done", self._by_index)
        return found

    def leave(self, hand: InHand) -> int:
        """Take all pictures in hand, and forget the rows of those that other threads have; return how many rows."""
        self._do_text(
            "SELECT DISTINCT dbinfer_digest FROM {pictures} WHERE dbinfer_digest OPERATOR(pg_catalog.<>) ''"
        )
        others = hand.take({bytes(digest) for (digest,) in self._cur.fetchall()})
        if not others:
            return 0
        listed = sql.Literal([f"\\x{digest.hex()}" for digest in others])
        self._do_text(
            "DELETE FROM {pictures} WHERE dbinfer_digest OPERATOR(pg_catalog.=) ANY ({others}::pg_catalog.bytea[])",
            others=listed,
        )
        return self._cur.rowcount

    def score(self, most: int, each: bool = False) -> int:
        """Score a row of each picture; return how many have a result.

        Args:
            most: how many rows there are.
            each: score all rows.
        """
        rows = 0
        for statement in self.statements(each):
            self._cur.execute(sql.SQL(self._joins) + statement)
            rows += self._cur.rowcount
        if 0 < rows < most:
            self._do("reuse_done", self._by_index)
        return rows

    def statements(self, each: bool = False) -> Iterator[sql.Composed]:
        """Yield the statements that score a row of each picture, or each row."""
        return self._plan.batches_of(self._all_rows if each else self._one_of_each, SEEN)

    def left(self) -> Iterator[tuple[Bound, Bound]]:
        """Yield the key of each row that has no result yet, and its mark and digest."""
        texts = sql.SQL(", ").join(sql.SQL("{}::pg_catalog.text").format(name) for name in self._columns)
        seen = "dbinfer_mark, pg_catalog.encode(dbinfer_digest, 'hex')"
        query = f"SELECT {{texts}}, {seen} FROM {{pictures}} ORDER BY {{columns}}"
        self._do_text(query, texts=texts, columns=sql.SQL(", ").join(self._columns))
        width = len(self._columns)
        yield from ((row[:width], row[width:]) for row in self._cur.fetchall())

    def _one_of_each(self, wanted: sql.Composable) -> sql.Composed:
        return self._rows(wanted, self._format("reuse_one", picture_order=self._of("p")))

    def _all_rows(self, wanted: sql.Composable) -> sql.Composed:
        return self._rows(wanted, self._format("reuse_all"))

    def _rows(self, wanted: sql.Composable, pictures: sql.Composable) -> sql.Composed:
        return self._format(
            "reuse_rows",
            wanted=wanted,
            pictures=pictures,
            source_same=self._same("source"),
            unchanged=self._unchanged,
            where=sql.SQL(self._plan.options.where),
        )

    @property
    def _joins(self) -> str:
        # without an index in the order of the key, a batch reads the whole table
        return self._by_index if self._plan.ordered or self._plan.platform.mpp else ""

    @property
    def _by_index(self) -> str:
        return HASHED if self._plan.platform.mpp else BY_INDEX

    @property
    def _unchanged(self) -> sql.Composable:
        if self._marks.written:
            return sql.SQL("{} OPERATOR(pg_catalog.=) picture.dbinfer_mark").format(self._marks.mark)
        return sql.SQL("{} OPERATOR(pg_catalog.=) picture.dbinfer_digest").format(self._plan.source_digest)

    def _done(self) -> None:
        self._do("reuse_done", self._by_index)

    def _do(self, file: str, prefix: str = "", **more: sql.Composable) -> None:
        self._cur.execute(sql.SQL(prefix) + self._format(file, **more))

    def _do_text(self, text: str, **more: sql.Composable) -> None:
        self._cur.execute(sql.SQL(text).format(pictures=self._name.identifier, **more))

    def _format(self, file: str, **more: sql.Composable) -> sql.Composed:
        plan, columns = self._plan, self._plan.function.columns
        pairs = self._answers.versions
        of_version = "done.model OPERATOR(pg_catalog.=) {} AND done.version OPERATOR(pg_catalog.=) {}"
        versions = sql.SQL(" OR ").join(sql.SQL(of_version).format(*map(sql.Literal, pair)) for pair in pairs)
        wanted = "wanted.dbinfer_digest"
        of_picture = f"done.{DIGEST} OPERATOR(pg_catalog.=) {wanted}"
        if plan.platform.mpp:
            of_picture = f"done.{DIGEST} IN (SELECT p.dbinfer_digest FROM {{pictures}} p)"
        names: dict[str, sql.Composable] = {
            "pictures": self._name.identifier,
            "into": plan.into.identifier,
            "table": plan.table.identifier,
            "keys": plan.key.listed(),
            "picture_keys": self._of("picture"),
            "names": _listed(columns),
            "known_names": _listed(columns, "known"),
            "found_names": _listed(columns, "found"),
            "done_names": _listed([*columns, DIGEST], "done"),
            "first": sql.Identifier(columns[0]),
            "of_picture": sql.SQL(of_picture).format(pictures=self._name.identifier),
            "versions": versions,
            "model": sql.Literal(plan.model),
            "version": sql.Literal(plan.version),
            "done_same": self._same("done"),
            "conflict": plan.conflict,
        }
        return sql.SQL(plan.platform.adapt(read(f"client/{file}.sql"))).format(**(names | more))

    def _of(self, alias: str) -> sql.Composed:
        return sql.SQL(", ").join(
            sql.SQL("{}.{}").format(sql.Identifier(alias), name) for name in self._columns
        )

    def _same(self, other: str) -> sql.Composed:
        return sql.SQL(" AND ").join(
            sql.SQL("{} {} {}").format(
                sql.Identifier(other, c.name), sql.SQL(c.operator(SAME)), sql.SQL("picture.{}").format(name)
            )
            for c, name in zip(self._plan.key.columns, self._columns, strict=True)
        )

    def _listed_as(self, alias: str) -> sql.Composed:
        return sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(sql.Identifier(alias, c.name), name)
            for c, name in zip(self._plan.key.columns, self._columns, strict=True)
        )


# A Greenplum 7 failed in all other joins of bytea: "cache lookup failed for function 0", "Mergejoin: ... bad plan"
HASHED = "SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = off; SET LOCAL enable_nestloop = off; "
SEEN = sql.SQL(", picture.dbinfer_mark, picture.dbinfer_digest")
# Answers come by index, whatever the statistics say of a table that was empty a moment ago. How what is found is joined
# is for the planner to say, from which the statements before have taken most ways
BY_INDEX = (
    "SET LOCAL enable_seqscan = off; SET LOCAL enable_nestloop = on; SET LOCAL enable_hashjoin = on; "
    "SET LOCAL enable_mergejoin = on; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off; "
)


def _listed(names: Iterable[str], alias: str | None = None) -> sql.Composed:
    parts = ((alias, name) if alias else (name,) for name in names)
    return sql.SQL(", ").join(sql.Identifier(*part) for part in parts)
