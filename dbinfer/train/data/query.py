"""Training data straight from the database: each rank reads its own rows through its own connection."""

from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg2.extensions import connection as Connection

from dbinfer.connection import session
from dbinfer.errors import DataError
from dbinfer.train.data.source import Samples, Source, Target

BYTEA, NUMBERS, TEXTS = 17, (20, 21, 23), (18, 19, 25, 1042, 1043)
ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)
FETCH = 16  # rows at a time: images may be large
CURE = "Write it as SELECT image, mask FROM ... or SELECT image, label FROM ...; image and mask are bytea."


@dataclass(frozen=True)
class Query:
    """The rows of a query with two columns: image (bytea) and mask (bytea) or label (text or whole number).

    All ranks must see the rows in one order. A query's own ORDER BY is kept (let it end in a unique column);
    without any the rows are ordered by the md5 of their content.
    """

    text: str
    dsn: str
    task: str
    labels: tuple[str, ...] = ()

    @classmethod
    def find(cls, text: str, dsn: str, labels: tuple[str, ...] = ()) -> Query:
        """Look at the query's columns and, for classes, at which there are.

        Raises:
            DataError: the query fails, or its columns are of other kinds.
            ServerError: the server cannot be reached.
        """
        text = text.strip().rstrip(";").rstrip()
        with _session(dsn) as connection:
            kinds = _kinds(connection, text)
            if kinds[1] == BYTEA:
                return cls(_ordered(text, "md5(target)"), dsn, "segmentation")
            names = _classes(connection, text)
        unknown = sorted(set(names) - set(labels)) if labels else []
        if unknown:
            raise DataError(
                f"the query gives the class {unknown[0]!r}, but the classes are {', '.join(labels)}."
            )
        return cls(_ordered(text, "target::text"), dsn, "classification", labels or names)

    def count(self) -> int:
        with _session(self.dsn) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM ({self.text}) AS q")
            row = cursor.fetchone()
        return int(row[0]) if row else 0

    def open(self, rows: Sequence[int]) -> Samples:
        """Read these rows into a temporary file, through a cursor on the server."""
        spool = Spool(self.labels)
        with _session(self.dsn) as connection, connection.cursor("dbinfer_train") as cursor:
            cursor.execute(self.text)
            for row, (image, target) in _rows(cursor, rows):
                spool.add(row, image, target)
        if len(spool) != len(rows):
            raise DataError(
                f"the query gave {len(spool)} rows in place of {len(rows)}: the table has changed."
            )
        return spool

    def heldout(self) -> Source | None:
        return None


class Spool:
    """Samples in an unnamed temporary file, so that no rank holds its images in memory."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self._file = tempfile.TemporaryFile(prefix="dbinfer-train-")  # noqa: SIM115  (lives as long as the spool)
        weakref.finalize(self, self._file.close)
        self._labels = {label: number for number, label in enumerate(labels)}
        self._entries: list[tuple[int, int, int, int]] = []  # row, offset, bytes of the image, bytes or class
        self._end = 0

    def add(self, row: int, image: Any, target: Any) -> None:
        """Append one row; DataError where a value is NULL."""
        if image is None or target is None:
            raise DataError(f"row {row} of the query has a NULL.", "Add WHERE ... IS NOT NULL.")
        last = len(target) if isinstance(target, memoryview) else self._labels[str(target)]
        self._entries.append((row, self._end, len(image), last))
        self._end += self._file.write(image)
        if isinstance(target, memoryview):
            self._end += self._file.write(target)

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, index: int) -> tuple[bytes, Target]:
        _, start, size, last = self._entries[index]
        self._file.flush()
        image = os.pread(self._file.fileno(), size, start)
        return image, last if self._labels else os.pread(self._file.fileno(), last, start + size)

    def name(self, index: int) -> str:
        return f"row {self._entries[index][0]} of the query"


@contextmanager
def _session(dsn: str) -> Iterator[Connection]:
    """Open a read-only transaction that sees one state of the tables."""
    with session(dsn or None, needs_dbinfer=False, readonly=True) as connection:
        connection.set_session(isolation_level="REPEATABLE READ")
        yield connection


def _kinds(connection: Connection, text: str) -> tuple[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM ({text}) AS q LIMIT 0")
        columns = cursor.description or ()
    kinds = [int(column.type_code) for column in columns]
    if len(kinds) != 2 or kinds[0] != BYTEA or kinds[1] not in (BYTEA, *NUMBERS, *TEXTS):
        names = ", ".join(column.name for column in columns)
        raise DataError(
            f"the query gives the columns {names}, but must give an image and a mask or label.", CURE
        )
    return kinds[0], kinds[1]


def _classes(connection: Connection, text: str) -> tuple[str, ...]:
    """Return the distinct labels: whole numbers by size, texts by their characters."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT DISTINCT target FROM ({text}) AS q(image, target) WHERE target IS NOT NULL")
        found = sorted(row[0] for row in cursor.fetchall())
    if not found:
        raise DataError("the query gives no rows.", CURE)
    return tuple(str(label) for label in found)


def _ordered(text: str, tie: str) -> str:
    if ORDER.search(text):
        return text
    return f"SELECT * FROM ({text}) AS q(image, target) ORDER BY md5(image), {tie}"


def _rows(cursor: Any, rows: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Yield the rows with these (rising) numbers; the server skips those between."""
    position = 0
    for first, length in _runs(rows):
        if first > position:
            cursor.scroll(first - position)
        position = first
        while position < first + length:
            fetched = cursor.fetchmany(min(FETCH, first + length - position))
            if not fetched:
                return
            yield from zip(range(position, position + len(fetched)), fetched, strict=True)
            position += len(fetched)


def _runs(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the stretches of consecutive numbers as (first, length)."""
    runs: list[tuple[int, int]] = []
    for row in rows:
        if runs and row == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((row, 1))
    return runs
