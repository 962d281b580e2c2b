"""Training data from the database: each rank reads its own rows, and no others, from one snapshot."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import psycopg2
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, TrainError
from dbinfer.database.connection import one, sentence, session
from dbinfer.database.platform import detect
from dbinfer.images import boxes
from dbinfer.train.source import ONE_LABEL, Samples, Source, Spool, Target, check_value, vector

SETTINGS = (
    "SET LOCAL idle_in_transaction_session_timeout = 0",  # it waits while ranks start
    # Without these two, rows that an ORDER BY leaves equal may come in another order in another session
    "SET LOCAL synchronize_seqscans = off",
    "SET LOCAL max_parallel_workers_per_gather = 0",
)


class Snapshot:
    """A read-only transaction that is opened when it is first used, and kept open until `close`.

    Args:
        dsn: the server.
        imported: name of a snapshot that another session has exported; else a new one.
    """

    def __init__(self, dsn: str, imported: str = "") -> None:
        self.dsn, self._imported = dsn, imported
        self._stack = ExitStack()
        self._connection: Connection | None = None

    @contextmanager
    def cursor(self, name: str | None = None) -> Iterator[Any]:
        """Yield a cursor, a server-side one where it has a name; the server's errors become a DataError."""
        connection = self._open()
        try:
            with connection.cursor(name) as cursor:
                yield cursor
        except psycopg2.Error as err:
            raise sentence(err, DataError) from err

    @property
    def on_segments(self) -> bool:
        """Return whether the rows lie on the segments of an MPP database."""
        return detect(self._open()).mpp

    def export(self) -> str:
        """Return the name under which other sessions can import this snapshot, as long as it is open."""
        with self.cursor() as cursor:
            cursor.execute("SELECT pg_catalog.pg_export_snapshot()")
            return str(one(cursor))

    def close(self) -> None:
        """End the transaction; a second call does nothing."""
        self._connection = None
        self._stack.close()

    def _open(self) -> Connection:
        if self._connection is None:
            opened = session(self.dsn or None, needs_dbinfer=False, readonly=True)
            connection = self._stack.enter_context(opened)
            # At lower levels each statement has a snapshot of its own, and the server imports none
            connection.set_session(isolation_level="REPEATABLE READ")
            self._connection = connection
            self._begin(connection)
        return self._connection

    def _begin(self, connection: Connection) -> None:
        with connection.cursor() as cursor:
            if self._imported:
                try:
                    # First of all: after a query the server refuses it
                    cursor.execute("SET TRANSACTION SNAPSHOT %s", (self._imported,))
                except psycopg2.Error as err:
                    raise TrainError(
                        f"the snapshot {self._imported} of this run cannot be read: {err.diag.message_primary}",
                        "All ranks must reach one server, and the launching process must stay connected to it.",
                    ) from err
            for setting in SETTINGS:
                cursor.execute(setting)


# Oids that are the same in every database: bytea; int8, int2, int4; "char", name, text, bpchar, varchar
BYTEA, NUMBERS, TEXTS = 17, (20, 21, 23), (18, 19, 25, 1042, 1043)
HINT = (
    "Write it as SELECT image, mask, key FROM ..., SELECT image, boxes, key or SELECT image, label, key; image and "
    "mask are bytea, label is one text, whole number or value of an enum, an array of texts or whole numbers, or a "
    "real number, and key, which may be left out, is unique."
)
JSONS = (114, 3802)  # json, jsonb
ARRAYS = (1005, 1007, 1009, 1015, 1016)  # int2[], int4[], text[], varchar[], int8[]
REALS = (700, 701, 1700)  # float4, float8, numeric
TASKS = {
    BYTEA: "segmentation",
    **dict.fromkeys((*NUMBERS, *TEXTS), "classification"),
    **dict.fromkeys(ARRAYS, "multilabel"),
    **dict.fromkeys(REALS, "regression"),
}
# Enums are scales. Of arrays of rows, as dbinfer.detect returns them, the elements are of a composite type
FIND_TASK = """
SELECT CASE WHEN t.typtype OPERATOR(pg_catalog.=) 'e' THEN 'ordinal'
            WHEN e.typtype OPERATOR(pg_catalog.=) 'c' THEN 'detection' ELSE '' END
  FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid OPERATOR(pg_catalog.=) t.typelem
 WHERE t.oid OPERATOR(pg_catalog.=) %(type)s::pg_catalog.oid
"""
FIND_STEPS = """
SELECT enumlabel FROM pg_catalog.pg_enum WHERE enumtypid OPERATOR(pg_catalog.=) %(type)s::pg_catalog.oid
 ORDER BY enumsortorder
"""
EQUALS = "OPERATOR(pg_catalog.=)"
# The operator that sorting uses, too. Types of extensions (citext) have their own; for all others EQUALS does.
FIND_EQUALS = """
SELECT pg_catalog.format('OPERATOR(%%I.%%s)', s.nspname, o.oprname)
  FROM pg_catalog.pg_opclass c
  JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) c.opcmethod
  JOIN pg_catalog.pg_amop p ON p.amopfamily OPERATOR(pg_catalog.=) c.opcfamily
  JOIN pg_catalog.pg_operator o ON o.oid OPERATOR(pg_catalog.=) p.amopopr
  JOIN pg_catalog.pg_namespace s ON s.oid OPERATOR(pg_catalog.=) o.oprnamespace
 WHERE m.amname OPERATOR(pg_catalog.=) 'btree' AND c.opcdefault
   AND p.amopstrategy OPERATOR(pg_catalog.=) 3::pg_catalog.int2
   AND c.opcintype OPERATOR(pg_catalog.=) %(type)s::pg_catalog.oid
   AND p.amoplefttype OPERATOR(pg_catalog.=) c.opcintype AND p.amoprighttype OPERATOR(pg_catalog.=) c.opcintype
"""


class Columns(NamedTuple):
    """What a query returns beside images.

    Attributes:
        task: follows from the second column's type, whose oid is `target`.
        key: the third column's type; empty where there is none. `equals`: its `=`.
    """

    task: str
    target: int
    key: str = ""
    equals: str = EQUALS


def columns(snapshot: Snapshot, text: str) -> Columns:
    """Return what the columns of a query are for."""
    with snapshot.cursor() as cursor:
        # No rows, but the server describes the columns
        cursor.execute(f"SELECT * FROM ({text}) AS q LIMIT 0")
        given = cursor.description or ()
        kinds = [int(column.type_code) for column in given]
        task = _task(cursor, kinds)
        if not task:
            names = ", ".join(column.name for column in given)
            raise DataError(
                f"the query returns the columns {names}, but must return an image and a mask, boxes or label",
                HINT,
            )
        if len(kinds) == 2:
            return Columns(task, kinds[1])
        # By name, because the keys go back to the server as an array of this type
        cursor.execute("SELECT pg_catalog.format_type(%s, NULL)", (kinds[2],))
        name = str(cursor.fetchone()[0])
        cursor.execute(FIND_EQUALS, {"type": kinds[2]})
        found = cursor.fetchone()
        return Columns(task, kinds[1], name, str(found[0]) if found else EQUALS)


def _task(cursor: Any, kinds: Sequence[int]) -> str:
    """Return the task that columns of these types are for; empty where they are for none."""
    if len(kinds) not in (2, 3) or kinds[0] != BYTEA:
        return ""
    if kinds[1] in JSONS:
        return "detection"
    if kinds[1] in TASKS:
        return TASKS[kinds[1]]
    cursor.execute(FIND_TASK, {"type": kinds[1]})
    found = cursor.fetchone()
    return str(found[0]) if found else ""


def check_tables(snapshot: Snapshot, text: str) -> None:
    """Refuse tables that no snapshot of this database covers."""
    with snapshot.cursor() as cursor:
        # The plan, not the text: a foreign table may stand behind a view
        cursor.execute(f"EXPLAIN (COSTS OFF) SELECT * FROM ({text}) AS q")
        foreign = [line[0].strip() for line in cursor.fetchall() if "Foreign Scan" in line[0]]
    if foreign:
        raise DataError(
            f"the query reads from another server ({foreign[0]}), where the ranks cannot share one snapshot",
            "Copy the rows into a table of this database first.",
        )


def classes(snapshot: Snapshot, text: str, key: str, each: str = "target") -> tuple[str, ...]:
    """Return the distinct labels: whole numbers in order, texts by their characters.

    Args:
        each: makes the labels of the second column.
    """
    names = "image, target, key" if key else "image, target"
    with snapshot.cursor() as cursor:
        labels = f"SELECT {each} AS label FROM ({text}) AS q({names})"
        cursor.execute(f"SELECT DISTINCT label FROM ({labels}) AS l WHERE label IS NOT NULL")
        # Sorted here: the server's order of texts depends on its collation
        found = sorted(row[0] for row in cursor.fetchall())
    if not found:
        none = "no row of the query has a label" if each != "target" else "the query returns no rows"
        raise DataError(none, HINT)
    return tuple(str(label) for label in found)


def steps(snapshot: Snapshot, enum: int) -> tuple[str, ...]:
    """Return the values of an enum, named by its oid, in their order, also those that no row has."""
    with snapshot.cursor() as cursor:
        cursor.execute(FIND_STEPS, {"type": enum})
        return tuple(str(label) for (label,) in cursor.fetchall())


def classes_of_boxes(snapshot: Snapshot, text: str, key: str) -> tuple[str, ...]:
    """Return the distinct labels of all boxes; that reads the lists, but no image."""
    names = "image, target, key" if key else "image, target"
    labels: set[str] = set()
    rows = 0
    with snapshot.cursor("dbinfer_train") as cursor:
        cursor.execute(f"SELECT pg_catalog.to_json(target) FROM ({text}) AS q({names})")
        for (found,) in cursor:
            rows += 1
            labels.update(boxes.labels_of(found, "a row of the query") if found is not None else ())
    if not labels:
        raise DataError(
            "no row of the query has a box" if rows else "the query returns no rows",
            boxes.HINT if rows else HINT,
        )
    return boxes.in_order(labels)


def check_keys(keys: Sequence[Any]) -> None:
    """Raise DataError where a key is missing or twice; the keys are sorted."""
    # object() equals nothing: the first key has no predecessor
    for before, key in zip([object(), *keys], keys, strict=False):
        if key is None:
            raise DataError("the key, the third column of the query, is NULL in a row", HINT)
        if key == before:
            raise DataError(f"the key, the third column of the query, is {key!r} in two rows", HINT)


ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)
UNNEST = "pg_catalog.unnest"
FETCH = 16  # rows at a time: images may be large
CHANGED = (
    "Let the query read tables of this database only, and no function that gives other values in each call."
)


@dataclass(frozen=True)
class Query:
    """The rows of a query with an image (bytea), a mask (bytea), boxes, labels or a number, and maybe a key.

    Boxes are json, jsonb or an array of rows with label, x, y, width and height, as dbinfer.detect returns it. A label
    is a text or a whole number; an array of them are several at once. The values of an enum are the steps of a scale.
    Any other number is what the network predicts.

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
        """Look at the query's columns and, for labels, at the classes.

        Raises:
            DataError: the query fails, or its columns are of other kinds.
            ServerError: the server cannot be reached.
        """
        # It becomes a subquery, where a semicolon is an error
        text = text.strip().rstrip(";").rstrip()
        check_tables(snapshot, text)
        task, target, key, equals = columns(snapshot, text)
        if task == "detection" and not key and snapshot.on_segments:
            raise DataError("on Greenplum a query for boxes needs a unique key as its third column", HINT)
        if task in ("segmentation", "regression"):
            return cls(text, snapshot, task, key, equals=equals)
        if task == "detection":
            found = classes_of_boxes(snapshot, text, key)
        elif task == "ordinal":
            found = steps(snapshot, target)
        else:
            found = classes(snapshot, text, key, f"{UNNEST}(target)" if task == "multilabel" else "target")
        unknown = sorted(set(found) - set(labels)) if labels else []
        if unknown:
            raise DataError(
                f"the query returns the class {unknown[0]!r}, but the classes are {', '.join(labels)}",
                "Those of the training count, or of the version that goes on; for new ones: --fine-tune 0.3",
            )
        return cls(text=text, snapshot=snapshot, task=task, key=key, labels=labels or found, equals=equals)

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        """What tells each row from others without reading its image: its key, or sizes and label."""
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

    def counts(self) -> Sequence[int]:
        names = "image, target, key" if self.key else "image, target"
        each = f"{UNNEST}(target)" if self.task == "multilabel" else "target"
        labels = f"SELECT {each} AS label FROM ({self.text}) AS q({names})"
        with self.snapshot.cursor() as cursor:
            cursor.execute(f"SELECT label, pg_catalog.count(*) FROM ({labels}) AS l GROUP BY label")
            found = {str(label): int(count) for label, count in cursor.fetchall()}
        return [found.get(label, 0) for label in self.labels]

    @property
    def _target(self) -> str:
        """The second column as psycopg2 reads it: an array of rows it would leave as text, numeric as Decimal."""
        changed = {"detection": "pg_catalog.to_json(target)", "regression": "target::pg_catalog.float8"}
        return changed.get(self.task, "target")

    @property
    def _ordered(self) -> str:
        if ORDER.search(self.text):
            return self.text
        # Equal images may have different targets, and their order must be one, too
        tie = "pg_catalog.md5(target)" if self.task == "segmentation" else "target::pg_catalog.text"
        return f"SELECT * FROM ({self.text}) AS q(image, target) ORDER BY pg_catalog.md5(image), {tie}"

    def _read(self, rows: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """Yield (number, image, target) of these rows, in any order; no other row leaves the server."""
        # Qualified, and no USING, which looks for = in the user's search_path, where others may have put theirs
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
        # A % in the user's query is not a placeholder of psycopg2; ours have a cast behind them
        text = text.replace("%", "%%").replace("%%s::", "%s::")
        with self.snapshot.cursor("dbinfer_train") as cursor:
            cursor.itersize = FETCH
            cursor.execute(text, values)
            yield from cursor

    def _checked(self, rows: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        for row, image, target in self._read(rows):
            # Sizes for large values, because the listing has not read the images either
            sizes = [
                value if isinstance(value, int | float | str | list | None) else len(value)
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
            spool.add(row, image, self._truth(row, target, numbers))
        spool.sort()
        return spool

    def _truth(self, row: int, target: Any, numbers: dict[str, int]) -> Target:
        """Return what Samples.read returns of a row's second column."""
        if self.task in ONE_LABEL:
            return numbers[str(target)]
        if self.task == "detection":
            return boxes.packed(target, numbers, f"row {row} of the query")
        if self.task == "multilabel":
            return _marked(row, target, numbers)
        return _number(row, target) if self.task == "regression" else target


def _marked(row: int, labels: Sequence[Any], numbers: dict[str, int]) -> bytes:
    """Return 1 for each label that the row has and 0 for each other one, in the order of the labels."""
    if None in labels:
        raise DataError(f"row {row} of the query has a NULL among its labels", "Use array_remove(..., NULL).")
    has = {numbers[str(label)] for label in labels}
    return vector(float(number in has) for number in range(len(numbers)))


def _number(row: int, value: float) -> bytes:
    if not math.isfinite(value):
        raise DataError(f"row {row} of the query has the number {value}", "Leave out such rows.")
    return vector([value])
