"""What a person labels and has labelled: each request of the page is a transaction of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.database.connection import one, session
from dbinfer.database.platform import detect
from dbinfer.database.sql import read
from dbinfer.images.stores import ImageColumn
from dbinfer.label.options import LabelOptions, LabelReport
from dbinfer.label.tables import Row, Tables
from dbinfer.label.values import BOXES
from dbinfer.report.pictures import MAX_IMAGE_BYTES


@dataclass(frozen=True)
class Answer:
    """What the table says of a row, a label or boxes; `at` identifies the answer."""

    value: Any
    who: str
    at: str


class TakenError(DataError):
    """Somebody else has labelled the row meanwhile."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.who} has labelled it {_shown(answer.value)} meanwhile")
        self.answer = answer


class GoneError(DataError):
    """The answer that is to be taken back is not there any more."""


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"with {len(value)} boxes"


@dataclass
class Work:
    """What is to be done, and has been done.

    Attributes:
        tables: of images, rows to label and answers.
        rows: that had no label when this began, those to ask for first at the front.
        classes: labels that there are; other ones may be given unless these were asked for by name.
        who: labels, as the column says it.
        given: the number of each row that this run has labelled, and what it was given.
    """

    tables: Tables
    rows: Sequence[Row]
    classes: tuple[str, ...]
    who: str
    options: LabelOptions
    dsn: str | None
    given: dict[int, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def begin(cls, table: str, options: LabelOptions, dsn: str | None) -> Work:
        """Look at the tables, and make that of the labels where it is missing; see dbinfer.label.label."""
        with session(dsn) as conn, conn.cursor() as cur:
            tables = Tables.find(cur, table, options)
            tables.make(cur, detect(conn).adapt(read("client/label_create.sql")))
            rows, known = tables.rows(cur)
            cur.execute("SELECT SESSION_USER::pg_catalog.text")
            who = options.who or str(one(cur))
        return cls(tables, rows, options.classes or known, who, options, dsn=dsn)

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
        tables, alias = self.tables, "i" if name == "image" else "l"
        values = [
            sql.SQL("{}::{}").format(sql.Literal(text), sql.Identifier(*kind))
            for text, kind in zip(key, tables.source.keys.values(), strict=True)
        ]
        this = (
            sql.SQL("{} OPERATOR(pg_catalog.=) {}").format(sql.Identifier(alias, column), value)
            for column, value in zip(tables.source.keys, values, strict=True)
        )
        names: dict[str, sql.Composable] = {
            "table": tables.source.table.identifier,
            "labels": tables.into.identifier,
            "keys": sql.SQL(", ").join(map(sql.Identifier, tables.source.keys)),
            "key": sql.SQL(", ").join(values),
            "this": sql.SQL(" AND ").join(this),
            "who": sql.Literal(self.who),
            "value": sql.Identifier(tables.value.column),
        }
        cur.execute(sql.SQL(read(f"client/label_{name}.sql")).format(**(names | more)))

    def image(self, number: int) -> bytes:
        """Return the image file of a row.

        Raises:
            DataError: there is none, or one that is too large for a page.
        """
        source = self.tables.source
        with self._transaction() as cur:
            column = ImageColumn.of(cur, source.img_type)
            img = column.image(sql.Identifier("i", source.img))
            self._run(cur, "image", number, img=img, limit=sql.Literal(MAX_IMAGE_BYTES))
            found = cur.fetchone()
        if found is None:
            raise DataError(f"{self.tables.source.table} has no such row any more")
        size, data = found
        if size is None:
            raise DataError("the row has no image")
        if data is None:
            raise DataError(f"the image has {size} bytes, but the page shows at most {MAX_IMAGE_BYTES}")
        return column.file(data, MAX_IMAGE_BYTES)

    def answer(self, number: int) -> Answer | None:
        """Return what the table says of a row; None where nobody has labelled it."""
        with self._transaction() as cur:
            self._run(cur, "state", number)
            found = cur.fetchone()
        return Answer(self.tables.value.read(found[0]), *found[1:]) if found else None

    def give(self, number: int, given: Any) -> Answer:
        """Write the label, or the boxes, of a row.

        Raises:
            TakenError: somebody has labelled it meanwhile; that answer stays.
            UsageError, DataError: it is no label, or none of the classes; a box has no label or no area.
        """
        value = self.tables.value.check(given, None if self.open else self.classes)
        proposal = self.rows[number].proposal
        try:
            with self._transaction(readonly=False) as cur:
                self.tables.into.require_own(cur, here=True)
                self._run(cur, "write", number, given=self._literal(value), proposal=self._literal(proposal))
                answer = Answer(value, self.who, one(cur))
        except DataError as err:
            if not isinstance(err.__cause__, psycopg2.errors.UniqueViolation):
                raise
            there = self.answer(number)
            if there is None:
                raise
            if (there.value, there.who) != (value, self.who):
                raise TakenError(there) from err
            answer = there  # the connection was lost after the commit, and the person has tried again
        with self._lock:
            self.given[number] = value
        return answer

    def _literal(self, value: Any) -> sql.Composable:
        text = None if value is None else self.tables.value.write(value)
        return sql.SQL("{}::pg_catalog.{}").format(sql.Literal(text), sql.SQL(self.tables.value.kind))

    def take_back(self, number: int, at: str) -> None:
        """Remove an answer of this person.

        Raises:
            GoneError: it is not there any more.
        """
        with self._transaction(readonly=False) as cur:
            self.tables.into.require_own(cur, here=True)
            self._run(cur, "undo", number, at=sql.Literal(at))
            gone = cur.rowcount
        if gone != 1:
            raise GoneError(f"the answer of {self.who} is not in {self.tables.into} any more")
        with self._lock:
            self.given.pop(number, None)

    def report(self) -> LabelReport:
        """Return what this run has done; `left` counts what others have labelled meanwhile as this table says now."""
        corrected = sum(self.rows[number].proposal != value for number, value in self.given.items())
        with self._transaction() as cur:
            left = len(self.rows) - self.tables.labelled(cur, [row.key for row in self.rows])
        return LabelReport(str(self.tables.into), len(self.rows), len(self.given), corrected, left)


def facts(work: Work) -> dict[str, Any]:
    """Return what the page says of the work, as JSON."""
    return {
        "table": str(work.tables.source.table),
        "into": str(work.tables.into),
        "who": work.who,
        "rows": len(work.rows),
        "classes": list(work.classes),
        "open": work.open,
        "boxes": work.tables.value is BOXES,
    }
