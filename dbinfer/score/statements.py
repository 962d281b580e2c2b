"""The statements of a job: one version of a model, a table of images with its key, a table of results."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2 import errors, sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.platform import Platform
from dbinfer.database.sql import TableName, column, read
from dbinfer.score.options import Arguments, Function, ScoreOptions
from dbinfer_udf.tasks import OF_A_JOB

# btree's numbers of its operators
UPTO, SAME, ABOVE = "2", "3", "5"
SIGNS = {UPTO: "<=", SAME: "=", ABOVE: ">"}
# A key as texts, one a column, in the server's own form of each type
Bound = Sequence[str]


@dataclass(frozen=True)
class Range:
    """The keys of a batch: above `low` (None: from the first one on), up to `high` (None: to the last); its rows."""

    low: Bound | None = None
    high: Bound | None = None
    rows: int = 0


@dataclass(frozen=True)
class Column:
    """One column of a key; `operators` are the SQL of each by btree's number."""

    name: str
    number: int
    type: str
    nullable: bool
    operators: dict[str, str]

    def operator(self, number: str) -> str:
        """Return the operator with its schema."""
        return self.operators.get(number, f"OPERATOR(pg_catalog.{SIGNS[number]})")

    def value(self, text: str) -> sql.Composed:
        """Return a value as SQL."""
        return sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(self.type))


@dataclass(frozen=True)
class Key:
    """What names a row of a table: one column or several."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    def listed(self, alias: str | None = None, suffix: str = "") -> sql.Composed:
        """Return `alias.a, alias.b`."""
        return sql.SQL(", ").join(self._of(alias, column) + sql.SQL(suffix) for column in self.columns)

    def texts(self, alias: str | None = None) -> sql.Composed:
        """Return the key as texts, which come back as they were."""
        return self.listed(alias, "::pg_catalog.text")

    def values(self, bound: Bound) -> sql.Composed:
        """Return a key as a list of values."""
        return sql.SQL(", ").join(c.value(text) for c, text in zip(self.columns, bound, strict=True))

    def same(self, alias: str, other: str) -> sql.Composed:
        """Return the condition that two rows have one key."""
        return sql.SQL(" AND ").join(
            sql.SQL("{} {} {}").format(self._of(alias, c), sql.SQL(c.operator(SAME)), self._of(other, c))
            for c in self.columns
        )

    def compared(self, number: str, alias: str, bound: Bound | None) -> sql.Composable:
        """Return the condition that a row's key is above a bound, up to it, or the same; true without a bound."""
        if bound is None:
            return sql.SQL("true")
        if len(self.columns) == 1:
            row, value = self.listed(alias), self.values(bound)
        else:
            row = sql.SQL("ROW({})").format(self.listed(alias))
            value = sql.SQL("ROW({})").format(self.values(bound))
        return sql.SQL("{} {} {}").format(row, sql.SQL(self.columns[0].operator(number)), value)

    @staticmethod
    def _of(alias: str | None, column: Column) -> sql.Composed:
        return sql.Composed([sql.Identifier(*([alias] if alias else []), column.name)])


def columns_of(cur: Cursor, table: TableName) -> dict[str, Column]:
    """Return the columns of a relation; none where there is no such relation."""
    cur.execute(read("client/job_key.sql"), {"table": table.identifier.as_string(cur)})
    found = (Column(name, number, kind, nullable, ops or {}) for number, name, kind, nullable, ops in cur)
    return {one.name: one for one in found}


def find(cur: Cursor, table: TableName, names: str, there: dict[str, Column]) -> Key:
    """Return the key of these columns, as a user writes them.

    Raises:
        UsageError: they are no names, or several of types whose operators lie in different schemas.
        DataError: the table has no such column, or its type has no order.
    """
    wanted = [column(name) for name in _split(names)]
    for name in wanted:
        if name not in there:
            raise DataError(
                f"{table} has no column {name!r} to name its rows by",
                f"Name the key with --key; the columns are {', '.join(there)}.",
            )
    key = Key(tuple(there[name] for name in wanted))
    if len(key.columns) > 1 and len({c.operator(ABOVE) for c in key.columns}) > 1:
        raise UsageError(f"the key {names!r} mixes a type of an extension with others", "Use one column.")
    _check_order(cur, table, key)
    return key


def _split(names: str) -> list[str]:
    """Split at commas that stand outside double quotes."""
    return re.findall(r'(?:"(?:[^"]|"")*"|[^,"])+', names) or [names]


def _check_order(cur: Cursor, table: TableName, key: Key) -> None:
    cur.execute("SAVEPOINT dbinfer_order")
    statement = sql.SQL("SELECT {keys} FROM {table} ORDER BY {keys} LIMIT 0")
    try:
        cur.execute(statement.format(keys=key.listed(), table=table.identifier))
    except errors.UndefinedFunction as err:
        types = ", ".join(c.type for c in key.columns)
        raise DataError(
            f"the key {', '.join(key.names)} of {table} has no order (type {types})",
            "Name another key with --key: a number, text, uuid, date, or a composite of such.",
        ) from err
    cur.execute("RELEASE SAVEPOINT dbinfer_order")


def indexes(cur: Cursor, table: TableName, key: Key) -> tuple[bool, bool]:
    """Return whether an index makes the key unique, and whether one gives the rows in its order."""
    cur.execute(read("client/job_indexes.sql"), {"table": table.identifier.as_string(cur)})
    wanted = [c.number for c in key.columns]
    unique = ordered = False
    found: list[tuple[bool, Any]] = cur.fetchall()
    for is_unique, numbers in found:
        listed = [int(number) for number in str(numbers).split(",")]
        unique |= is_unique and set(listed) <= set(wanted)
        ordered |= listed[: len(wanted)] == wanted
    return unique, ordered


# Greenplum 6 is a PostgreSQL 9.4
CONFLICT_SINCE = 90500


@dataclass(frozen=True)
class Plan:
    """What a job does, with all names checked.

    Attributes:
        table, into, errors: images, results, and bad images.
        model, version: that score; an alias or the active version may change meanwhile. '' and 0: no model.
        ordered: an index gives the keys in their order.
        grouped: the network is small enough to take many images at once.
        milliseconds: of an image, where the model was tried; else a guess.
        marked: the table's rows know which transaction has written them.
    """

    table: TableName
    into: TableName
    errors: TableName
    key: Key
    function: Function
    model: str
    version: int
    options: ScoreOptions
    platform: Platform
    ordered: bool
    grouped: bool = False
    milliseconds: float = 10.0
    marked: bool = False

    @property
    def targets(self) -> tuple[TableName, TableName]:
        """Return the tables that it writes to."""
        return self.into, self.errors

    @property
    def reference(self) -> str | None:
        """Return the model as SQL functions take it."""
        return f"{self.model}@{self.version}" if self.version else None

    def boundary(self, low: Bound | None, size: int, retry: bool) -> sql.Composed:
        """Return the query for the end of the next batch: its number of rows, and its last key."""
        return self._format(
            "client/job_boundary.sql",
            texts=self.key.texts("batch"),
            rows=self._rows(Range(low), self.key.listed("source"), retry),
            size=sql.Literal(size),
            descending=self.key.listed("batch", " DESC"),
        )

    def total(self, retry: bool) -> sql.Composed:
        """Return the query for the number of rows that are to be scored."""
        rows = self._rows(Range(), sql.SQL("1"), retry)
        return sql.SQL("SELECT pg_catalog.count(*) FROM ({}) open").format(rows)

    def batches(self, keys: Range) -> Iterator[sql.Composed]:
        """Yield the statements that score a range and store what has a result; each takes what is left."""
        if self.grouped:
            yield self._group(keys)
        # On Greenplum a group leaves the last rows of each segment
        if self.platform.mpp or not self.grouped:
            yield self._insert(keys, "null")

    def single(self, key: Bound) -> sql.Composed:
        """Return the statement that scores one row, and raises why it cannot be scored."""
        return self._insert(key, "error")

    def left(self, keys: Range) -> sql.Composed:
        """Return the query for the keys of a range that its batch has left: bad rows, most of all."""
        return self._rows(keys, self.key.texts("source"), retry=False)

    def bad(self, key: Bound, reason: str) -> sql.Composed:
        """Return the statement that notes a bad row."""
        return self._format(
            "client/job_bad.sql",
            values=self.key.values(key),
            reason=sql.Literal(reason),
            conflict=self._conflict,
        )

    def retry(self, keys: Range) -> sql.Composed:
        """Return the statement that takes a range out of the table of errors."""
        return self._format(
            "client/job_retry.sql",
            failed_above=self.key.compared(ABOVE, "failed", keys.low),
            failed_upto=self.key.compared(UPTO, "failed", keys.high),
        )

    def end(self, began: str) -> sql.Composed:
        """Return the query that says what became of the rows meanwhile."""
        age = "pg_catalog.age(source.dbinfer_mark) OPERATOR(pg_catalog.<) pg_catalog.age(done.xmin)"
        return self._format(
            "client/job_end.sql",
            changed=sql.SQL(age if self.marked else "false"),
            mark=sql.SQL("xmin" if self.marked else "NULL"),
            first=sql.Identifier(self.function.columns[0]),
            began=sql.SQL("{}::timestamptz").format(sql.Literal(began)),
            done_same=self.key.same("done", "source"),
        )

    def _insert(self, keys: Range | Bound, on_error: str) -> sql.Composed:
        wanted = sql.SQL("{}, source.{img} IS NULL AS dbinfer_empty, {call} AS result").format(
            self.key.listed("source"),
            img=self._img,
            call=self._call(sql.SQL("source.{}").format(self._img), on_error),
        )
        return self._format(
            "client/job_batch.sql",
            rows=self._rows(keys, wanted, retry=False),
            **self._stored(on_error == "error"),
        )

    def _group(self, keys: Range) -> sql.Composed:
        wanted = sql.SQL("{}, source.{} AS dbinfer_img").format(self.key.listed("source"), self._img)
        return self._format(
            "client/job_group_segments.sql" if self.platform.mpp else "client/job_group.sql",
            type=sql.SQL(self.key.columns[0].type),
            rows=self._rows(keys, wanted, retry=False),
            call=self._call(sql.SQL("dbinfer_img"), "null"),
            function=sql.Literal(self.function.name),
            kind=sql.SQL("files" if self.function.binary else "texts"),
            result_type=sql.SQL(str(self.function.batched)),
            scan=sql.Literal(OF_A_JOB + uuid.uuid4().hex),
            reference=sql.Literal(self.reference),
            **self._stored(False),
        )

    def _stored(self, nulls: bool) -> dict[str, sql.Composable]:
        return {
            "parts": self.function.results(sql.SQL("result")),
            "names": sql.SQL(", ").join(map(sql.Identifier, self.function.columns)),
            # A row that is scored alone has raised if it is bad
            "keep_nulls": sql.Literal(nulls or self.options.on_error == "null"),
            "conflict": self._conflict,
        }

    @property
    def _img(self) -> sql.Identifier:
        return sql.Identifier(column(self.options.column))

    @property
    def _conflict(self) -> sql.Composable:
        # Two clients by mistake: the second one's row is the same
        return sql.SQL("ON CONFLICT DO NOTHING" if self.platform.kernel >= CONFLICT_SINCE else "")

    def _call(self, img: sql.Composable, on_error: str) -> sql.Composed:
        return self.function.call(img, Arguments(self.reference, on_error, self.options.top))

    def _rows(self, keys: Range | Sequence[str], wanted: sql.Composable, retry: bool) -> sql.Composed:
        """Return the query for the open rows of a range, or of one key."""
        low, high = (keys.low, keys.high) if isinstance(keys, Range) else (None, None)
        upto = (
            self.key.compared(UPTO, "source", high)
            if isinstance(keys, Range)
            else self.key.compared(SAME, "source", keys)
        )
        failed = self._format(
            "client/job_not_failed.sql",
            failed_same=self.key.same("failed", "source"),
            failed_above=self.key.compared(ABOVE, "failed", low),
        )
        return self._format(
            "client/job_rows.sql",
            wanted=wanted,
            where=sql.SQL(self.options.where),
            above=self.key.compared(ABOVE, "source", low),
            upto=upto,
            done_same=self.key.same("done", "source"),
            # Again, so that its index is read from there on, too
            done_above=self.key.compared(ABOVE, "done", low),
            not_failed=sql.SQL("true") if retry else failed,
        )

    def _format(self, file: str, **more: sql.Composable) -> sql.Composed:
        names: dict[str, sql.Composable] = {
            "table": self.table.identifier,
            "into": self.into.identifier,
            "errors": self.errors.identifier,
            "keys": self.key.listed(),
            "source_keys": self.key.listed("source"),
            "model": sql.Literal(self.model),
            "version": sql.Literal(self.version),
        }
        return sql.SQL(self.platform.adapt(read(file))).format(**(names | more))
