"""What a report reads of its tables: versions, a sample of results, bad rows, images; each as one statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import execute_patiently
from dbinfer.errors import DataError
from dbinfer.page.source import Source
from dbinfer.sqlfiles import read

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
            "img": sql.Identifier(source.img),
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
                f"Score the images first: dbinfer score --table {table} --into {into}",
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
