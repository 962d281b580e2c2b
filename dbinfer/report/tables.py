"""The two tables of a report: what their columns are, and what a report reads of them, each as one statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.database.connection import execute_patiently, one
from dbinfer.database.sql import TableName, column, read
from dbinfer.report.options import ReportOptions
from dbinfer.score.options import FUNCTIONS

# By the first column of the result, as dbinfer.score.FUNCTIONS name them
KINDS = dict.fromkeys((function.columns[0] for function in FUNCTIONS.values()), "values") | {
    "class": "classes",
    "classes": "classes",
    "mask": "masks",
    "detections": "boxes",
    "embedding": "vectors",
    "rank": "choices",  # as dbinfer.next makes them
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
        img, label, truth: columns of the table of images; img_type: of img.
        versioned: the results name model, version and time.
        name: the column of the table of images that a reader knows a row by, where there is one.
        errors: the table of bad rows, where there is one.
    """

    table: TableName
    predictions: TableName
    errors: TableName | None
    keys: Columns
    first: str
    img: str
    img_type: str
    label: str | None
    truth: str | None
    versioned: bool
    name: str | None

    @property
    def kind(self) -> str:
        """Return what the results are: classes, masks, boxes, vectors, choices or values."""
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


def find(
    cur: Cursor, table: str, predictions: str, options: ReportOptions, needs_image: bool = True
) -> Source:
    """Look at both tables.

    Args:
        needs_image: the images' column must be there.

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
    img = _image(images, has, options) if needs_image else column(options.column)
    errors = TableName(results.schema, f"{results.name}_errors")
    return Source(
        table=images,
        predictions=results,
        errors=errors
        if {"reason", "at", "model", "version", *keys} <= set(columns(cur, errors, missing=True))
        else None,
        keys={name: has[name] for name in keys},
        first=first,
        img=img,
        img_type=has[img][1] if img in has else "",
        label=_label(images, has, options.label),
        truth=_truth(images, has, options.truth),
        versioned={"model", "version", "scored_at"} <= set(gives),
        name=_name(cur, images, has),
    )


def images_of(cur: Cursor, table: str, options: ReportOptions) -> Source:
    """Return where the pictures of rows are that no table of results names.

    Raises:
        DataError: the table, its key or its images are not there.
    """
    images = TableName.parse(table).resolve(cur)
    has = columns(cur, images)
    keys = [column(name) for name in (options.key or "id").split(",")]
    for name in keys:
        _require(images, has, name, "Name the column that identifies a row with --key.")
    img = _image(images, has, options)
    return Source(
        table=images,
        predictions=images,
        errors=None,
        keys={name: has[name] for name in keys},
        first="class",
        img=img,
        img_type=has[img][1],
        label=None,
        truth=None,
        versioned=False,
        name=_name(cur, images, has),
    )


def _image(table: TableName, has: Columns, options: ReportOptions) -> str:
    name = column(options.column)
    _require(table, has, name, "Name the column with the images with --column.")
    if has[name][1] not in ("bytea", "text", "varchar", "oid"):
        raise DataError(
            f"column {name!r} of {table} is {has[name][1]}, but images are bytea, or references to them text"
        )
    return name


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


def _require(table: TableName, has: Columns, name: str, hint: str) -> None:
    if name not in has:
        raise DataError(f"table {table} has no column {name!r}", hint)


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


# What the server's hash of a key is cut to, see sql/client/report_sample.sql
HASHES = 1 << 20
# The end of a name, of which a page shows some 40 letters
MOST_LETTERS = 200
Key = tuple[str, ...]


@dataclass(frozen=True)
class Version:
    """Results of one version of a model; name and number are None where the table does not have them.

    Attributes:
        rows: of the table; results: those of them that are not NULL; first, last: when they were scored.
    """

    model: str | None
    number: int | None
    rows: int
    results: int
    first: datetime | None = None
    last: datetime | None = None

    def __str__(self) -> str:
        return f"{self.model}@{self.number}" if self.model else "a model that the table does not name"


class Row(NamedTuple):
    """One result: its key, whether the key has an image, the image's label, and the values of the result."""

    key: Key
    found: bool
    label: str | None
    result: tuple[Any, ...]


class Rows:
    """Reads the tables of a source."""

    def __init__(self, cur: Cursor, source: Source) -> None:
        self.cur, self.source = cur, source

    def _run(self, name: str, **more: sql.Composable) -> list[tuple[Any, ...]]:
        """Return the rows of sql/client/report_NAME.sql; values are part of it, for a column's name may hold a %."""
        source = self.source
        names: dict[str, sql.Composable] = {
            "table": source.table.identifier,
            "predictions": source.predictions.identifier,
            "first": sql.Identifier(source.first),
            "key": source.key("p"),
        }
        execute_patiently(self.cur, sql.SQL(read(f"client/report_{name}.sql")).format(**(names | more)))
        return self.cur.fetchall()

    def versions(self) -> list[Version]:
        """Return what has been scored, the version that scored last first.

        Raises:
            DataError: the table is empty.
        """
        names = ("p.model::pg_catalog.text", "p.version", "p.scored_at")
        absent = ("NULL::pg_catalog.text", "NULL::pg_catalog.int4", "NULL::pg_catalog.timestamptz")
        model, version, at = (sql.SQL(text) for text in (names if self.source.versioned else absent))
        found = [Version(*row) for row in self._run("versions", model=model, version=version, at=at)]
        if not found:
            table, into = self.source.table, self.source.predictions
            raise DataError(
                f"table {into} has no rows, so there is nothing to report",
                f"Score the images first: dbinfer score --table {table} --predictions {into}",
            )
        return found

    def sample(self, version: Version, most: int) -> list[Row]:
        """Return the results of one version: all of them, or about `most`, the same keys for every version.

        Raises:
            DataError: a key is there twice, or the results are not those of these images.
        """
        part = HASHES if version.rows <= most else max(1, HASHES * most // version.rows)
        label = sql.Identifier("i", self.source.label) if self.source.label else sql.SQL("NULL")
        rows = self._run(
            "sample",
            first_key=sql.Identifier(next(iter(self.source.keys))),
            label=sql.SQL("{}::pg_catalog.text").format(label),
            result=sql.SQL(self._result()),
            same=self.source.same("p", "i"),
            version=of(version),
            part=sql.Literal(part),
        )
        return self._checked([Row(tuple(row[0]), row[1], row[2], row[3:]) for row in rows])

    def _result(self) -> str:
        """Return the columns of the result, as far as the page's figures need them."""
        if self.source.first == "class":
            return 'p."class", p.label::pg_catalog.text, p.score'
        if self.source.first == "classes":
            best = "(p.classes)[1]"
            return f'({best})."class", ({best}).label::pg_catalog.text, ({best}).score'
        if self.source.kind == "vectors":
            return "p.embedding"
        if self.source.kind == "boxes":
            return "pg_catalog.array_to_json(p.detections)"
        return f'CASE WHEN p."{self.source.first}" IS NOT NULL THEN true END'

    def _checked(self, rows: list[Row]) -> list[Row]:
        table, into = self.source.table, self.source.predictions
        twice = next((key for key, count in Counter(row.key for row in rows).items() if count > 1), None)
        if twice is not None:
            raise DataError(
                f"key {', '.join(map(str, twice))!r} is not unique in {table} or {into}",
                "Name the column or columns that identify a row with --key.",
            )
        if rows and not any(row.found for row in rows):
            raise DataError(
                f"no row of {into} has an image in {table}", "Name the table that was scored with --table."
            )
        return rows

    def reasons(self, version: Version, most: int) -> tuple[list[tuple[str, int]], int]:
        """Return why rows are bad and how many, the most frequent reasons first, and how many bad rows there are."""
        found = self._bad("reasons", version, most)
        return [(reason, count) for reason, count, _ in found], int(found[0][2]) if found else 0

    def bad(self, version: Version, most: int) -> list[tuple[Key, str | None]]:
        """Return the last bad rows and their reasons; where nobody noted any, rows without a result."""
        found = self._bad("bad", version, most)
        if not found and version.results < version.rows:
            found = self._run("nulls", version=of(version), limit=sql.Literal(most))
        return [(tuple(key), reason) for key, reason in found]

    def names(self, keys: Sequence[Key]) -> dict[Key, str]:
        """Return what the images of some keys are called; those without a name are left out."""
        if self.source.name is None or not keys:
            return {}
        found = self._run(
            "names",
            key=self.source.key("a"),
            called=sql.Identifier(self.source.name),
            limit=sql.Literal(MOST_LETTERS),
            asked=self.source.arrays(list(zip(*keys, strict=True))),
            names=sql.SQL(", ").join(map(sql.Identifier, self.source.keys)),
            same=self.source.same("i", "a"),
        )
        return {tuple(key): name for key, name in found if name.strip()}

    def _bad(self, name: str, version: Version, most: int) -> list[tuple[Any, ...]]:
        errors = self.source.errors
        if errors is None:
            return []
        return self._run(name, errors=errors.identifier, version=of(version), limit=sql.Literal(most))


def of(version: Version, alias: str = "p") -> sql.Composable:
    """Return the condition that a row of results is of this version."""
    if version.model is None:
        return sql.SQL("true")
    text = "{0}.model OPERATOR(pg_catalog.=) {1} AND {0}.version OPERATOR(pg_catalog.=) {2}"
    return sql.SQL(text).format(
        sql.Identifier(alias), sql.Literal(version.model), sql.Literal(version.number)
    )


def choose(
    versions: Sequence[Version], options: ReportOptions, versioned: bool
) -> tuple[Version, Version | None]:
    """Return the version that is shown, and the one it is compared with, if any.

    Args:
        versions: that the table holds, the one that scored last first.
        versioned: whether the table says so; else `options.model` is taken for what it says.

    Raises:
        DataError: the table has no results of a version that the options name.
    """
    if not versioned:
        if options.against:
            raise DataError(
                "the table of results does not say which version scored a row, so there are no two to compare",
                "Score with a job of 'dbinfer score', which notes model and version.",
            )
        return versions[0], None
    shown = _named(versions, options.model) if options.model else versions[0]
    if options.against is not None:
        return shown, _named(versions, options.against) if options.against else None
    before = [other for other in versions if other.model == shown.model and other != shown]
    earlier = [other for other in before if (other.number or 0) < (shown.number or 0)]
    return shown, next(iter(earlier or before), None)


def _named(versions: Sequence[Version], name: str) -> Version:
    for version in versions:
        # The name alone means the version of this model that scored last
        if name in (str(version), version.model):
            return version
    have = ", ".join(map(str, versions[:5]))
    raise DataError(f"there are no results of {name!r}", f"The table has those of {have}.")
