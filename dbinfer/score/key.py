"""The columns that name a row: how they are compared, ordered, and written as values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2 import errors, sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.errors import DataError, UsageError
from dbinfer.names import TableName, column
from dbinfer.sqlfiles import read

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
