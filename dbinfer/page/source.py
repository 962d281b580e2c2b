"""The two tables of a report: what their columns are, and what of them the page can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one
from dbinfer.errors import DataError
from dbinfer.names import TableName, column
from dbinfer.page.options import ReportOptions
from dbinfer.sqlfiles import read

# By the first column of the result, as dbinfer.score.FUNCTIONS name them
KINDS = {
    "class": "classes",
    "classes": "classes",
    "mask": "masks",
    "detections": "boxes",
    "embedding": "vectors",
    "prediction": "values",
    "tensor": "values",
    "microseconds": "values",
    "format": "values",
}
Type = tuple[str, str]
Columns = dict[str, Type]
WORDS = ("text", "varchar", "bpchar", "name")
TEXTS = (*WORDS, "int2", "int4", "int8", "bool", "uuid")
# Columns that say what an image is called, the first of them that a table has
NAMES = ("path", "filename", "file_name", "file", "name")


@dataclass(frozen=True)
class Source:
    """The tables, checked.

    Attributes:
        keys: the columns that name a row in both tables, with their types.
        first: the column of the result that is NULL where there is none; kind: one of KINDS' values.
        img, label, truth: columns of the table of images; versioned: the results name model, version and time.
        name: the column of the table of images that a reader knows a row by, where there is one.
        errors: the table of bad rows, where there is one.
    """

    table: TableName
    predictions: TableName
    errors: TableName | None
    keys: Columns
    first: str
    img: str
    label: str | None
    truth: str | None
    versioned: bool
    name: str | None

    @property
    def kind(self) -> str:
        """Return what the results are: classes, masks, boxes, vectors or values."""
        return KINDS[self.first]

    def key(self, alias: str) -> sql.Composed:
        """Return the key of a row as an array of texts."""
        parts = (sql.SQL("{}::pg_catalog.text").format(sql.Identifier(alias, name)) for name in self.keys)
        return sql.SQL("ARRAY[{}]").format(sql.SQL(", ").join(parts))

    def same(self, one: str, other: str) -> sql.Composed:
        """Return the condition that two rows have one key."""
        equal = sql.SQL("{} OPERATOR(pg_catalog.=) {}")
        parts = (equal.format(sql.Identifier(one, name), sql.Identifier(other, name)) for name in self.keys)
        return sql.SQL(" AND ").join(parts)

    def arrays(self, values: Sequence[Sequence[str]]) -> sql.Composed:
        """Return the texts of some keys, by column, as rows of the columns' own types."""
        cast = sql.SQL("pg_catalog.unnest({}::pg_catalog.text[]::{}[])")
        pairs = zip(values, self.keys.values(), strict=True)
        parts = (cast.format(sql.Literal(list(texts)), sql.Identifier(*kind)) for texts, kind in pairs)
        return sql.SQL(", ").join(parts)


def find(cur: Cursor, table: str, predictions: str, options: ReportOptions) -> Source:
    """Look at both tables.

    Raises:
        DataError: one of them is not there, or lacks a column that the page needs.
    """
    images, results = TableName.parse(table).resolve(cur), TableName.parse(predictions).resolve(cur)
    has, gives = columns(cur, images), columns(cur, results)
    first = next((name for name in gives if name in KINDS), None)
    if first is None:
        raise DataError(
            f"{results} has no column with results, such as {', '.join(list(KINDS)[:4])}",
            "Make the table with dbinfer score, and name it with --predictions.",
        )
    keys = _keys(options.key, gives, first)
    for name in keys:
        _require(images, has, name, "Name the column that identifies a row with --key.")
        _require(results, gives, name, "Name the column that identifies a row with --key.")
    img = column(options.column)
    _require(images, has, img, "Name the column with the images with --column.")
    _bytea(images, has, img)
    errors = TableName(results.schema, f"{results.name}_errors")
    return Source(
        images,
        results,
        errors
        if {"reason", "at", "model", "version", *keys} <= set(columns(cur, errors, missing=True))
        else None,
        {name: has[name] for name in keys},
        first,
        img,
        _label(images, has, options.label),
        _truth(images, has, options.truth),
        {"model", "version", "scored_at"} <= set(gives),
        _name(cur, images, has),
    )


def columns(cur: Cursor, table: TableName, missing: bool = False) -> Columns:
    """Return the columns of a table with the schema and name of their types.

    Raises:
        DataError: there is no such table, unless it may be missing.
    """
    cur.execute(read("client/report_columns.sql"), {"table": table.identifier.as_string(cur)})
    found = {name: (schema, kind) for name, schema, kind in cur.fetchall()}
    if not found and not missing:
        raise DataError(f"table {table} does not exist", "'dbinfer score' makes the table of results.")
    return found


def _keys(asked: str | None, gives: Columns, first: str) -> list[str]:
    if asked is not None:
        return [column(name) for name in asked.split(",")]
    names = list(gives)
    # A job writes the key's columns first, then model and version; a table of 0.1.0 got these after its results
    taken_over = (
        names[names.index("model") :][:3] == ["model", "version", "scored_at"] if "model" in names else True
    )
    return names[: names.index(first if taken_over else "model")] or ["id"]


def _require(table: TableName, has: Columns, name: str, cure: str) -> None:
    if name not in has:
        raise DataError(f"table {table} has no column {name!r}", cure)


def _bytea(table: TableName, has: Columns, name: str) -> None:
    if has[name] != ("pg_catalog", "bytea"):
        raise DataError(f"column {name!r} of {table} is {has[name][1]}, but images are bytea")


def _label(table: TableName, has: Columns, asked: str | None) -> str | None:
    if asked is None:
        return "label" if has.get("label", ("", ""))[1] in TEXTS else None
    if not asked:
        return None
    name = column(asked)
    _require(table, has, name, "Name the column with the true class with --label.")
    return name


def _name(cur: Cursor, table: TableName, has: Columns) -> str | None:
    # nobody asked for this column: who may not read it gets a page without it
    for name in (name for name in NAMES if has.get(name, ("", ""))[1] in WORDS):
        cur.execute(
            "SELECT pg_catalog.has_column_privilege(%s, %s, 'SELECT')",
            (table.identifier.as_string(cur), name),
        )
        if one(cur):
            return name
    return None


def _truth(table: TableName, has: Columns, asked: str | None) -> str | None:
    if asked is None:
        return "truth" if has.get("truth") == ("pg_catalog", "bytea") else None
    name = column(asked)
    _require(table, has, name, "Name the column with the true masks with --truth.")
    _bytea(table, has, name)
    return name
