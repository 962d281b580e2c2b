"""Training data straight from the database: each rank reads its own rows, and no others, from one snapshot."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dbinfer import boxes
from dbinfer.errors import DataError
from dbinfer.train.data.columns import (
    CURE,
    EQUALS,
    check_keys,
    check_tables,
    classes,
    classes_of_boxes,
    columns,
)
from dbinfer.train.data.snapshot import Snapshot
from dbinfer.train.data.source import Samples, Source
from dbinfer.train.data.spool import Spool, check_value

ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)
UNNEST = "pg_catalog.unnest"
FETCH = 16  # rows at a time: images may be large
CHANGED = (
    "Let the query read tables of this database only, and no function that gives other values in each call."
)


@dataclass(frozen=True)
class Query:
    """The rows of a query with an image (bytea), a mask (bytea), boxes or a label (text, number), and maybe a key.

    Boxes are json, jsonb or an array of rows with label, x, y, width and height, as dbinfer.detect returns it.

    Rows have numbers, from 0 on, which all ranks must see alike: by the key; else by the query's own ORDER BY; else by
    the md5 of their content, for which the server reads every image.

    Attributes:
        text: the query.
        key: type of the third column; empty without one.
        equals: the operator that compares two keys, with its schema.
    """

    text: str
    snapshot: Snapshot
    task: str
    key: str = ""
    labels: tuple[str, ...] = ()
    equals: str = EQUALS

    @classmethod
    def find(cls, text: str, snapshot: Snapshot, labels: tuple[str, ...] = ()) -> Query:
        """Look at the query's columns and, for classes, at which there are.

        Raises:
            DataError: the query fails, or its columns are of other kinds.
            ServerError: the server cannot be reached.
        """
        # It becomes a subquery, where a semicolon is an error
        text = text.strip().rstrip(";").rstrip()
        check_tables(snapshot, text)
        task, key, equals = columns(snapshot, text)
        if task == "detection" and not key and snapshot.on_segments:
            raise DataError("on Greenplum a query for boxes needs a unique key as its third column", CURE)
        if task == "segmentation":
            return cls(text, snapshot, task, key, equals=equals)
        found = (classes_of_boxes if task == "detection" else classes)(snapshot, text, key)
        unknown = sorted(set(found) - set(labels)) if labels else []
        if unknown:
            raise DataError(
                f"the query returns the class {unknown[0]!r}, but the classes are {', '.join(labels)}"
            )
        return cls(text, snapshot, task, key, labels or found, equals)

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        """Of each row what tells it from others without its image being read: its key, or sizes and label."""
        if self.key:
            listing = f"SELECT key FROM ({self.text}) AS q(image, target, key) ORDER BY key"
        else:  # octet_length of a large value looks at its pointer only
            size = "pg_catalog.octet_length"
            target = f"{size}(target)" if self.task == "segmentation" else self._target
            listing = f"SELECT {size}(image), {target} FROM ({self._ordered}) AS q(image, target)"
        with self.snapshot.cursor() as cursor:
            cursor.execute(listing)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        if self.key:
            check_keys([row[0] for row in rows])
        return rows

    @cached_property
    def _whole(self) -> Spool | None:
        """All rows, where the server drops the ORDER BY of a subquery, as Greenplum does: read once, as it stands."""
        if self.key or not self.snapshot.on_segments:
            return None
        with self.snapshot.cursor("dbinfer_train") as cursor:
            cursor.itersize = FETCH
            cursor.execute(self._ordered)
            return self._spooled((row, *values) for row, values in enumerate(cursor))

    def count(self) -> int:
        return len(self._rows if self._whole is None else self._whole)

    def fingerprint(self) -> str:
        seen = self._rows if self._whole is None else self._whole.entries
        return hashlib.md5(repr(seen).encode()).hexdigest()

    def open(self, rows: Sequence[int]) -> Samples:
        """Read these rows into a temporary file, through a cursor on the server."""
        if self._whole is not None:
            return self._whole.part(rows)
        spool = self._spooled(self._checked(rows))
        if len(spool) != len(rows):
            raise DataError(f"the query returned {len(spool)} rows instead of {len(rows)}", CHANGED)
        return spool

    def heldout(self) -> Source | None:
        return None

    @property
    def _target(self) -> str:
        """The second column as psycopg2 reads it: an array of rows it would leave as text."""
        return "pg_catalog.to_json(target)" if self.task == "detection" else "target"

    @property
    def _ordered(self) -> str:
        if ORDER.search(self.text):
            return self.text
        # Equal images may have different targets, and their order must be one, too
        tie = "pg_catalog.md5(target)" if self.task == "segmentation" else "target::pg_catalog.text"
        return f"SELECT * FROM ({self.text}) AS q(image, target) ORDER BY pg_catalog.md5(image), {tie}"

    def _read(self, rows: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """Yield (number, image, target) of these rows, in any order; no other row leaves the server."""
        # Qualified, and no USING, which looks for its = in the user's search_path: others may have put theirs there
        if self.key:
            wanted = f"ROWS FROM ({UNNEST}(%s::{self.key}[]), {UNNEST}(%s::pg_catalog.int8[])) AS w(key, row)"
            text = (
                f"SELECT w.row, image, {self._target} FROM ({self.text}) AS q(image, target, key) "
                f"JOIN {wanted} ON q.key {self.equals} w.key"
            )
            values: list[Any] = [[self._rows[row][0] for row in rows], list(rows)]
        else:
            number = "pg_catalog.row_number() OVER () AS number"
            numbered = f"SELECT q.*, {number} FROM ({self._ordered}) AS q(image, target)"
            wanted = f"{UNNEST}(%s::pg_catalog.int8[]) AS w(number)"
            text = (
                f"SELECT q.number OPERATOR(pg_catalog.-) 1, image, {self._target} FROM ({numbered}) AS q "
                f"JOIN {wanted} ON q.number {EQUALS} w.number"
            )
            values = [[row + 1 for row in rows]]
        # A % of the user's query is no placeholder of psycopg2; ours have a cast behind them
        text = text.replace("%", "%%").replace("%%s::", "%s::")
        with self.snapshot.cursor("dbinfer_train") as cursor:
            cursor.itersize = FETCH
            cursor.execute(text, values)
            yield from cursor

    def _checked(self, rows: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        for row, image, target in self._read(rows):
            # Of what is large its size, because the listing has not read the images either
            sizes = [
                value if isinstance(value, int | str | list | None) else len(value)
                for value in (image, target)
            ]
            if not self.key and tuple(sizes) != self._rows[row]:
                raise DataError(
                    f"row {row} of the query is a different one on the second read",
                    "Add a unique key as the third column, or at the end of ORDER BY.",
                )
            yield row, image, target

    def _spooled(self, rows: Iterable[tuple[Any, ...]]) -> Spool:
        spool = Spool()
        numbers = {label: number for number, label in enumerate(self.labels)}
        for row, image, target in rows:
            check_value(row, image, target)
            if self.task == "detection":
                spool.add(row, image, boxes.packed(target, numbers, f"row {row} of the query"))
            else:
                spool.add(row, image, numbers[str(target)] if self.labels else target)
        spool.sort()
        return spool
