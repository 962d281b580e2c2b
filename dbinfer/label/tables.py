"""The tables of a labelling: the images, the rows of them that are to be labelled, and the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.database.connection import execute_patiently, one
from dbinfer.database.sql import TableName, read, shortened
from dbinfer.images.boxes import in_order
from dbinfer.label.options import LONGEST, LabelOptions
from dbinfer.label.values import BOXES, LABEL, Value, labels_in
from dbinfer.report.options import ReportOptions
from dbinfer.report.sections import model_facts
from dbinfer.report.tables import Columns, Key, Rows, Source, Version, choose, columns, find, of

MOST_ROWS = 10_000  # of one sitting; the next one goes on
MOST_CLASSES = 1000  # more labels than these are no classes


class Row(NamedTuple):
    """A row to label: its key, what the model sees in it (a label, boxes, or None), and how sure it is."""

    key: Key
    proposal: Any
    score: float | None


@dataclass(frozen=True)
class Tables:
    """The tables, checked.

    Attributes:
        source: the images, and as its predictions the rows to label.
        into: the table of answers; value: what these are.
    """

    source: Source
    into: TableName
    value: Value

    @classmethod
    def find(cls, cur: Cursor, table: str, options: LabelOptions) -> Tables:
        """Look at the tables of images and of rows to label.

        Raises:
            DataError: one of them is not there, lacks a column, or may not be read.
        """
        value = BOXES if options.boxes else LABEL
        images = TableName.parse(table).resolve(cur)
        todo = _todo(cur, images, options)
        asked = ReportOptions(column=options.column, key=options.key)
        source = find(cur, str(images), str(todo), asked)
        # who may not read the images hears it now
        query = sql.SQL("SELECT {} FROM {} LIMIT 0")
        cur.execute(query.format(sql.Identifier(source.img), images.identifier))
        own = TableName(images.schema, shortened(images.name, value.suffix))
        return cls(source, TableName.parse(options.into).resolve(cur) if options.into else own, value)

    def make(self, cur: Cursor, create: str) -> None:
        """Make the table of answers where it is missing, by the text of sql/client/label_create.sql.

        Raises:
            DataError: there is one that holds other things, or belongs to another role.
        """
        has = columns(cur, self.into, missing=True)
        wanted = [*self.source.keys, self.value.column, "proposal", "who", "at"]
        if has and list(has) != wanted:
            raise DataError(
                f"table {self.into} has the columns {', '.join(has)}, not {', '.join(wanted)}, so it holds no such "
                "answers",
                "Name another table with --into.",
            )
        if has:
            self.into.require_own(cur)
            return
        names: dict[str, sql.Composable] = {
            "into": self.into.identifier,
            "table": self.source.table.identifier,
            "keys": sql.SQL(", ").join(map(sql.Identifier, self.source.keys)),
            "value": sql.Identifier(self.value.column),
            "kind": sql.Identifier("pg_catalog", self.value.kind),
        }
        cur.execute(sql.SQL(create).format(**names))

    def rows(self, cur: Cursor) -> tuple[list[Row], tuple[str, ...]]:
        """Return the rows that have no answer yet, and the labels that are known.

        Raises:
            DataError: there are no such rows, or some have one key.
        """
        version = choose(Rows(cur, self.source).versions(), ReportOptions(against=""), self.source.versioned)[
            0
        ]
        found = self._rows(cur, version)
        twice = next((key for key, times in Counter(row.key for row in found).items() if times > 1), None)
        if twice is not None:
            raise DataError(
                f"key {', '.join(map(str, twice))!r} is not unique in {self.source.predictions}",
                "Name the column or columns that identify a row with --key.",
            )
        if not found:
            raise DataError(
                f"every row of {self.source.predictions} has an answer in {self.into}",
                f"Choose other rows: dbinfer next --table {self.source.table}",
            )
        known = {label for row in found if row.proposal for label in labels_in(row.proposal)}
        known |= set(self._labels(cur, version))
        fitting = {text for text in known if text.strip() and len(text) <= LONGEST}
        return found, in_order(fitting)[:MOST_CLASSES]

    def _rows(self, cur: Cursor, version: Version) -> list[Row]:
        source, has = self.source, columns(cur, self.source.predictions)
        order = {"rank": ["rank"], "class": ["score"]}.get(source.first, [])
        names = {
            "todo": source.predictions.identifier,
            "labels": self.into.identifier,
            "key": source.key("t"),
            "proposal": self._proposal(has),
            "score": _optional(has, "score", "float8"),
            "version": of(version, "t"),
            "same": source.same("l", "t"),
            "order": sql.SQL(", ").join(
                sql.Identifier("t", name) for name in (*order, *source.keys) if name in has
            ),
            "limit": sql.Literal(MOST_ROWS),
        }
        execute_patiently(cur, sql.SQL(read("client/label_rows.sql")).format(**names))
        return [
            Row(tuple(key), None if text is None else self.value.read(text), score)
            for key, text, score in cur.fetchall()
        ]

    def _proposal(self, has: Columns) -> sql.Composable:
        if self.value is BOXES:
            json = "pg_catalog.array_to_json(t.detections)" if "detections" in has else "NULL"
            return sql.SQL(f"{json}::pg_catalog.text")
        return _optional(has, "proposal" if self.source.first == "rank" else "label", "text")

    def _labels(self, cur: Cursor, version: Version) -> Iterator[str]:
        """Yield the labels of the model, of the images and of earlier answers."""
        if version.model and (facts := model_facts(cur, version.model, version.number)):
            yield from facts.labels
        if self.source.label:
            yield from _distinct(cur, self.source.table, self.source.label)
        for text in _distinct(cur, self.into, self.value.column):
            yield from labels_in(self.value.read(text))

    def labelled(self, cur: Cursor, keys: Sequence[Key]) -> int:
        """Return how many of some keys have an answer."""
        query = sql.SQL("SELECT pg_catalog.count(*) FROM ROWS FROM ({}) AS a({}) JOIN {} l ON {}")
        names = sql.SQL(", ").join(map(sql.Identifier, self.source.keys))
        asked = self.source.arrays(list(zip(*keys, strict=True)))
        cur.execute(query.format(asked, names, self.into.identifier, self.source.same("l", "a")))
        return int(one(cur))


def _todo(cur: Cursor, images: TableName, options: LabelOptions) -> TableName:
    own = TableName(images.schema, shortened(images.name, "_next"))
    todo = TableName.parse(options.todo).resolve(cur) if options.todo else own
    has = columns(cur, todo, missing=True)
    if not has:
        raise DataError(
            f"table {todo} does not exist",
            f"Let it be made: dbinfer next --table {images}; or name another table of rows to label with --todo.",
        )
    results, function = ("detections", "detect") if options.boxes else ("class", "classify")
    if not {"rank", results} & set(has):
        raise DataError(
            f"{todo} has the columns {', '.join(has)}, but rows to label have rank or {results}",
            f"Make it with dbinfer next, or name the results of dbinfer score --function {function} with --todo.",
        )
    return todo


def _optional(has: Columns, name: str, kind: str) -> sql.Composable:
    column = sql.Identifier("t", name) if name in has else sql.SQL("NULL")
    return sql.SQL("{}::pg_catalog.{}").format(column, sql.SQL(kind))


def _distinct(cur: Cursor, table: TableName, column: str) -> list[str]:
    query = sql.SQL(read("client/label_classes.sql")).format(
        label=sql.Identifier(column), table=table.identifier, limit=sql.Literal(MOST_CLASSES)
    )
    execute_patiently(cur, query)
    return [text for (text,) in cur.fetchall()]
