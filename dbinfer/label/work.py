"""The rows that a person labels and the table of the answers: each request of the page is a transaction of its own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.connection import execute_patiently, one, session
from dbinfer.database.platform import detect
from dbinfer.database.sql import TableName, read, shortened
from dbinfer.images.boxes import in_order
from dbinfer.images.stores import image_of
from dbinfer.label.options import LONGEST, LabelOptions, LabelReport
from dbinfer.report.options import ReportOptions
from dbinfer.report.pictures import MAX_IMAGE_BYTES
from dbinfer.report.sections import model_facts
from dbinfer.report.tables import Columns, Key, Rows, Source, Version, choose, columns, find, of

MOST_ROWS = 10_000  # of one sitting; the next one goes on
MOST_CLASSES = 1000  # more labels than these are no classes
OURS = ("label", "proposal", "who", "at")


class Row(NamedTuple):
    """A row to label: its key, what the model sees in it, and how sure it is."""

    key: Key
    proposal: str | None
    score: float | None


@dataclass(frozen=True)
class Answer:
    """What the table of labels says of a row; `at` identifies the answer."""

    label: str
    who: str
    at: str


class TakenError(DataError):
    """Somebody else has labelled the row meanwhile."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.who} has labelled it {answer.label!r} meanwhile")
        self.answer = answer


@dataclass
class Work:
    """The tables, checked, and what is to be done.

    Attributes:
        rows: that had no label when this began, those to ask for first at the front.
        classes: labels that there are; other ones may be given unless these were asked for by name.
        who: labels, as the column says it.
        given: the number of each row that this run has labelled, and its label.
    """

    source: Source
    into: TableName
    rows: Sequence[Row]
    classes: tuple[str, ...]
    who: str
    options: LabelOptions
    dsn: str | None
    given: dict[int, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, table: str, options: LabelOptions, dsn: str | None) -> Work:
        """Look at the tables, and make that of the labels where it is missing; see dbinfer.label.label."""
        with session(dsn) as conn, conn.cursor() as cur:
            source = _source(cur, table, options)
            # what a role may not read it should hear now
            cur.execute(
                sql.SQL("SELECT {} FROM {} LIMIT 0").format(
                    sql.Identifier(source.img), source.table.identifier
                )
            )
            own = TableName(source.table.schema, shortened(source.table.name, "_labels"))
            into = TableName.parse(options.into).resolve(cur) if options.into else own
            _make(cur, source, into, detect(conn).adapt(read("client/label_create.sql")))
            version = choose(Rows(cur, source).versions(), ReportOptions(against=""), source.versioned)[0]
            rows = _rows(cur, source, into, version)
            classes = options.classes or _classes(cur, source, into, version, rows)
            cur.execute("SELECT SESSION_USER::pg_catalog.text")
            who = options.who or str(one(cur))
        return cls(source=source, into=into, rows=rows, classes=classes, who=who, options=options, dsn=dsn)

    @property
    def open(self) -> bool:
        """Return whether a label may be given that is not among the classes."""
        return self.options.classes is None

    @contextmanager
    def _transaction(self, readonly: bool = True) -> Iterator[Cursor]:
        # a connection for each: a person takes breaks in which servers, poolers and networks end those that wait
        with session(self.dsn, needs_dbinfer=False, readonly=readonly) as conn, conn.cursor() as cur:
            yield cur

    def _run(self, cur: Cursor, name: str, number: int, **more: sql.Composable) -> None:
        """Execute sql/client/label_NAME.sql for one row; values are part of it, for a column's name may hold a %."""
        key = self.rows[number].key
        values = [
            sql.SQL("{}::{}").format(sql.Literal(text), sql.Identifier(*kind))
            for text, kind in zip(key, self.source.keys.values(), strict=True)
        ]
        alias = "i" if name == "image" else "l"
        this = (
            sql.SQL("{} OPERATOR(pg_catalog.=) {}").format(sql.Identifier(alias, column), value)
            for column, value in zip(self.source.keys, values, strict=True)
        )
        names: dict[str, sql.Composable] = {
            "table": self.source.table.identifier,
            "labels": self.into.identifier,
            "keys": sql.SQL(", ").join(map(sql.Identifier, self.source.keys)),
            "key": sql.SQL(", ").join(values),
            "this": sql.SQL(" AND ").join(this),
            "who": sql.Literal(self.who),
        }
        cur.execute(sql.SQL(read(f"client/label_{name}.sql")).format(**(names | more)))

    def image(self, number: int) -> bytes:
        """Return the image file of a row.

        Raises:
            DataError: there is none, or one that is too large for a page.
        """
        with self._transaction() as cur:
            self._run(
                cur,
                "image",
                number,
                img=image_of(self.source.img_type, sql.Identifier("i", self.source.img)),
                limit=sql.Literal(MAX_IMAGE_BYTES),
            )
            found = cur.fetchone()
        if found is None:
            raise DataError(f"{self.source.table} has no such row any more")
        size, data = found
        if size is None:
            raise DataError("the row has no image")
        if data is None:
            raise DataError(f"the image has {size} bytes, but the page shows at most {MAX_IMAGE_BYTES}")
        return bytes(data)

    def answer(self, number: int) -> Answer | None:
        """Return what the table says of a row; None where nobody has labelled it."""
        with self._transaction() as cur:
            self._run(cur, "state", number)
            found = cur.fetchone()
        return Answer(*found) if found else None

    def give(self, number: int, label: str) -> Answer:
        """Write the label of a row.

        Raises:
            TakenError: somebody has labelled it meanwhile; that label stays.
            UsageError: it is no label, or none of the classes.
        """
        if not self.open and label not in self.classes:
            raise UsageError(f"{label!r} is none of the classes {', '.join(self.classes)}")
        proposal = self.rows[number].proposal
        try:
            with self._transaction(readonly=False) as cur:
                self.into.require_own(cur, here=True)
                self._run(cur, "write", number, label=sql.Literal(label), proposal=sql.Literal(proposal))
                given = Answer(label, self.who, one(cur))
        except DataError as err:
            if not isinstance(err.__cause__, psycopg2.errors.UniqueViolation):
                raise
            there = self.answer(number)
            if there is None:
                raise
            raise TakenError(there) from err
        with self._lock:
            self.given[number] = label
        return given

    def take_back(self, number: int, at: str) -> None:
        """Remove an answer of this person.

        Raises:
            DataError: it is not there any more.
        """
        with self._transaction(readonly=False) as cur:
            self.into.require_own(cur, here=True)
            self._run(cur, "undo", number, at=sql.Literal(at))
            gone = cur.rowcount
        if gone != 1:
            raise DataError(f"the label of {self.who} is not in {self.into} any more")
        with self._lock:
            self.given.pop(number, None)

    def report(self) -> LabelReport:
        """Return what this run has done; `left` counts what others have labelled meanwhile as this table says now."""
        corrected = sum(self.rows[number].proposal != label for number, label in self.given.items())
        with self._transaction() as cur:
            left = len(self.rows) - _labelled(cur, self.source, self.into, [row.key for row in self.rows])
        return LabelReport(str(self.into), len(self.rows), len(self.given), corrected, left)


def _source(cur: Cursor, table: str, options: LabelOptions) -> Source:
    images = TableName.parse(table).resolve(cur)
    own = TableName(images.schema, shortened(images.name, "_next"))
    todo = TableName.parse(options.todo).resolve(cur) if options.todo else own
    has = columns(cur, todo, missing=True)
    if not has:
        raise DataError(
            f"table {todo} does not exist",
            f"Let it be made: dbinfer next --table {images}; or name another table of rows to label with --todo.",
        )
    if not {"rank", "class"} & set(has):
        raise DataError(
            f"{todo} has the columns {', '.join(has)}, but rows to label have a rank or a class",
            "Make it with dbinfer next, or name the results of dbinfer score --function classify with --todo.",
        )
    asked = ReportOptions(column=options.column, key=options.key)
    return find(cur, str(images), str(todo), asked)


def _make(cur: Cursor, source: Source, into: TableName, create: str) -> None:
    has, wanted = columns(cur, into, missing=True), [*source.keys, *OURS]
    if has and list(has) != wanted:
        raise DataError(
            f"table {into} has the columns {', '.join(has)}, not {', '.join(wanted)}, so it is no table of labels",
            "Name another table with --into.",
        )
    if has:
        into.require_own(cur)
        return
    keys = sql.SQL(", ").join(map(sql.Identifier, source.keys))
    cur.execute(sql.SQL(create).format(into=into.identifier, table=source.table.identifier, keys=keys))


def _rows(cur: Cursor, source: Source, into: TableName, version: Version) -> list[Row]:
    ranked = source.first == "rank"
    has = columns(cur, source.predictions)
    proposal, order = ("proposal", ["rank"]) if ranked else ("label", ["score"])
    names = {
        "todo": source.predictions.identifier,
        "labels": into.identifier,
        "key": source.key("t"),
        "proposal": _optional(has, proposal, "text"),
        "score": _optional(has, "score", "float8"),
        "version": of(version, "t"),
        "same": source.same("l", "t"),
        "order": sql.SQL(", ").join(
            sql.Identifier("t", name) for name in (*order, *source.keys) if name in has
        ),
        "limit": sql.Literal(MOST_ROWS),
    }
    execute_patiently(cur, sql.SQL(read("client/label_rows.sql")).format(**names))
    found = [Row(tuple(key), *rest) for key, *rest in cur.fetchall()]
    twice = next((key for key, times in Counter(row.key for row in found).items() if times > 1), None)
    if twice is not None:
        raise DataError(
            f"key {', '.join(map(str, twice))!r} is not unique in {source.predictions}",
            "Name the column or columns that identify a row with --key.",
        )
    if not found:
        raise DataError(
            f"every row of {source.predictions} has a label in {into}",
            f"Choose other rows: dbinfer next --table {source.table}",
        )
    return found


def _optional(has: Columns, name: str, kind: str) -> sql.Composable:
    column = sql.Identifier("t", name) if name in has else sql.SQL("NULL")
    return sql.SQL("{}::pg_catalog.{}").format(column, sql.SQL(kind))


def _classes(
    cur: Cursor, source: Source, into: TableName, version: Version, rows: Sequence[Row]
) -> tuple[str, ...]:
    found = {row.proposal for row in rows if row.proposal}
    if version.model and (facts := model_facts(cur, version.model, version.number)):
        found |= set(facts.labels)
    told = [(into, "label")] + ([(source.table, source.label)] if source.label else [])
    for table, label in told:
        query = sql.SQL(read("client/label_classes.sql")).format(
            label=sql.Identifier(label), table=table.identifier, limit=sql.Literal(MOST_CLASSES)
        )
        execute_patiently(cur, query)
        found |= {text for (text,) in cur.fetchall()}
    return in_order({text for text in found if text.strip() and len(text) <= LONGEST})[:MOST_CLASSES]


def _labelled(cur: Cursor, source: Source, into: TableName, keys: Sequence[Key]) -> int:
    query = sql.SQL("SELECT pg_catalog.count(*) FROM ROWS FROM ({}) AS a({}) JOIN {} l ON {}")
    names = sql.SQL(", ").join(map(sql.Identifier, source.keys))
    asked = source.arrays(list(zip(*keys, strict=True)))
    cur.execute(query.format(asked, names, into.identifier, source.same("l", "a")))
    return int(one(cur))


def facts(work: Work) -> dict[str, Any]:
    """Return what the page says of the work, as JSON."""
    return {
        "table": str(work.source.table),
        "into": str(work.into),
        "who": work.who,
        "rows": len(work.rows),
        "classes": list(work.classes),
        "open": work.open,
    }
