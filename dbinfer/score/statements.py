"""The statements of a job: one version of a model, a table of images with its key, a table of results."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2 import errors, sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.platform import Platform
from dbinfer.database.sql import TableName, column, read
from dbinfer.images.stores import image_of, refers
from dbinfer.score.answers import Answers
from dbinfer.score.marks import COLUMNS, Marks
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
class Listed:
    """The keys of a batch, one by one."""

    keys: tuple[Bound, ...]

    @property
    def rows(self) -> int:
        """Return how many there are."""
        return len(self.keys)


@dataclass(frozen=True)
class Batch:
    """What one transaction does with some keys, before it scores what has no result.

    Attributes:
        retry: it tries the bad images of earlier runs again.
        exact: it compares the digests of all images, not only of rows with another mark.
        gone: it removes what is stored of rows that are no longer there; without rows it does nothing else.
        leaves: a later pass takes the rows whose picture another thread has in hand.
    """

    keys: Range | Listed
    retry: bool = False
    exact: bool = False
    gone: bool = False
    leaves: bool = False


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

    def among(self, alias: str, keys: Listed) -> sql.Composed:
        """Return the condition that a row's key is in a list."""
        listed = sql.SQL(", ").join(sql.SQL("({})").format(self.values(bound)) for bound in keys.keys)
        return sql.SQL("EXISTS (SELECT FROM (VALUES {}) listed ({}) WHERE {})").format(
            listed, self.listed(), self.same("listed", alias)
        )

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
    wanted = [column(name) for name in split(names) or [names]]
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


def split(names: str) -> list[str]:
    """Return names that commas part, where these stand outside double quotes."""
    return re.findall(r'(?:"(?:[^"]|"")*"|[^,"])+', names)


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
        img: the column of images, or of references to them.
        model, version: that score; an alias or the active version may change meanwhile. '' and 0: no model.
        ordered: an index gives the keys in their order.
        grouped: the network is small enough to take many images at once.
        milliseconds: of an image, where the model was tried; else a guess.
        marked: the table's rows know which transaction has written them.
        marks: what is kept beside a result to see that its image has changed; None: nothing.
        queue: the table of keys of changed rows that a trigger fills; None: there is none, or it is not used.
        answers: what may answer for a picture that was scored before; None: each row is scored.
    """

    table: TableName
    into: TableName
    errors: TableName
    img: Column
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
    marks: Marks | None = None
    queue: TableName | None = None
    answers: Answers | None = None

    @property
    def targets(self) -> tuple[TableName, ...]:
        """Return the tables that it writes to."""
        return (self.into, self.errors, *([self.queue] if self.queue else []))

    @property
    def exact(self) -> bool:
        """Return whether it compares all images when it looks at all rows."""
        follows = self.options.follow and self.marks is not None
        return follows and (self.options.exact or not (self.marks and self.marks.told))

    @property
    def refers(self) -> bool:
        """Whether the column of images has references to them."""
        return refers(self.img.type)

    @property
    def reference(self) -> str | None:
        """Return the model as SQL functions take it."""
        return f"{self.model}@{self.version}" if self.version else None

    def boundary(self, low: Bound | None, size: int, retry: bool, exact: bool = False) -> sql.Composed:
        """Return the query for the end of the next batch: its number of rows, and its last key."""
        return self._format(
            "client/job_boundary.sql",
            texts=self.key.texts("batch"),
            rows=self._rows(Range(low), self.key.listed("source"), retry, self._current(exact)),
            size=sql.Literal(size),
            descending=self.key.listed("batch", " DESC"),
        )

    def total(self, retry: bool) -> sql.Composed:
        """Return the query for the number of rows that are to be scored."""
        rows = self._rows(Range(), sql.SQL("1"), retry, self._current(False))
        return sql.SQL("SELECT pg_catalog.count(*) FROM ({}) open").format(rows)

    def batches(self, keys: Range | Listed) -> Iterator[sql.Composed]:
        """Yield the statements that score a range and store what has a result; each takes what is left."""
        yield from self.batches_of(lambda wanted: self._rows(keys, wanted, retry=False))

    def batches_of(
        self, rows: Callable[[sql.Composable], sql.Composed], seen: sql.Composable | None = None
    ) -> Iterator[sql.Composed]:
        """Yield the statements that score some rows.

        Args:
            rows: returns the query that gives what is wanted of the rows of `source`.
            seen: mark and digest, as more columns of that query, where they are known already.
        """
        if self.grouped:
            yield self._group(rows, seen or self._marked)
        # On Greenplum a group leaves the last rows of each segment
        if self.platform.mpp or not self.grouped:
            yield self._insert(rows, seen or self._marked, "null")

    def open_rows(self, keys: Range | Listed) -> sql.Composed:
        """Return the query for the keys of a range's open rows, each with mark and digest."""
        return self._rows(keys, sql.SQL("{}{}").format(self.key.listed("source"), self._marked), retry=False)

    @property
    def source_digest(self) -> sql.Composable:
        """Return the digest of the image of a row of `source`."""
        assert self.marks is not None
        return self.marks.digest(self._content)

    def single(self, key: Bound) -> sql.Composed:
        """Return the statement that scores one row, and raises why it cannot be scored."""
        return self._insert(lambda wanted: self._rows(key, wanted, retry=False), self._marked, "error")

    def left(self, keys: Range | Listed) -> sql.Composed:
        """Return the query for the keys that their batch has left: bad rows, most of all; with mark and digest.

        Both are read before the image is scored: if it is changed in between, it seems changed, and is scored again.
        """
        wanted: list[sql.Composable] = [self.key.texts("source")]
        if self.marks:
            digest = sql.SQL("pg_catalog.encode({}, 'hex')").format(self.source_digest)
            wanted += [self.marks.mark, digest]
        return self._rows(keys, sql.SQL(", ").join(wanted), retry=False)

    def bad(self, key: Bound, reason: str, seen: Sequence[str] = ()) -> sql.Composed:
        """Return the statement that notes a bad row, and what was `seen` of it, where that is kept: mark and digest."""
        marks = sql.SQL(", {}, pg_catalog.decode({}, 'hex')" if seen else "")
        return self._format(
            "client/job_bad.sql",
            values=self.key.values(key),
            reason=sql.Literal(reason),
            conflict=self.conflict,
            mark_names=self._mark_names,
            marks=marks.format(*map(sql.Literal, seen)),
        )

    def images(self, keys: Range, most: int, retry: bool) -> sql.Composed:
        """Return the query for the first open rows of a range: a mark, the key as texts, image or reference."""
        mark = sql.SQL("source.xmin::pg_catalog.text" if self.marked else "NULL::pg_catalog.text")
        img: sql.Composable = sql.Identifier("source", self.img.name)
        # of references the text, which workers follow
        img = sql.SQL("{}::pg_catalog.text").format(img) if self.refers else image_of(self.img.type, img)
        wanted = sql.SQL("{}, {}, {}").format(mark, self.key.texts("source"), img)
        return sql.SQL("{} ORDER BY {} LIMIT {}").format(
            self._rows(keys, wanted, retry), self.key.listed("source"), sql.Literal(most)
        )

    def store(self, scored: Sequence[tuple[Bound, str | None, bool, str | None]]) -> sql.Composed:
        """Return the statement that stores what a worker has found.

        Args:
            scored: of each row its key, its mark, whether it has no image, and the result as text.
        """
        keys, *others = zip(*scored, strict=True)
        columns = [sql.Identifier(f"k{n}") for n in range(len(self.key.columns))]
        arrays = [(list(texts), "text") for texts in zip(*keys, strict=True)]
        arrays += [
            (list(values), kind) for values, kind in zip(others, ("text", "bool", "text"), strict=True)
        ]
        unchanged = sql.SQL(
            "EXISTS (SELECT FROM {} source WHERE {} "
            "AND source.xmin::pg_catalog.text OPERATOR(pg_catalog.=) t.dbinfer_mark)"
        )
        values = [
            sql.SQL("t.{}::{} AS {}").format(name, sql.SQL(c.type), sql.Identifier(c.name))
            for name, c in zip(columns, self.key.columns, strict=True)
        ]
        same = sql.SQL(" AND ").join(
            sql.SQL("source.{} {} t.{}::{}").format(
                sql.Identifier(c.name), sql.SQL(c.operator(SAME)), name, sql.SQL(c.type)
            )
            for name, c in zip(columns, self.key.columns, strict=True)
        )
        rows = self._format(
            "client/job_scored.sql",
            values=sql.SQL(", ").join(values),
            arrays=sql.SQL(", ").join(_unnest(*array) for array in arrays),
            columns=sql.SQL(", ").join(columns),
            result_type=sql.SQL(self.function.result),
            unchanged=unchanged.format(self.table.identifier, same) if self.marked else sql.SQL("true"),
        )
        return self._format("client/job_batch.sql", rows=rows, **self._stored(True))

    def compared(self, batch: Batch) -> Iterator[tuple[sql.Composed, bool]]:
        """Yield what a job that follows does before a batch: each statement, and whether its rows were outdated."""
        assert self.marks is not None
        trusted = sql.SQL("done.image_mark OPERATOR(pg_catalog.=) source.dbinfer_mark")
        for stored in (self.into, self.errors):
            names = {
                "stored": stored.identifier,
                "mark": self.marks.mark,
                "img": self._content,
                "digest": self.marks.digest(sql.SQL("source.dbinfer_img")),
                "changes": sql.SQL("image_mark = source.dbinfer_mark"),
                "trusted": sql.SQL("false") if batch.exact else trusted,
                "done_same": self.key.same("done", "source"),
                "where": sql.SQL(self.options.where),
                **self._within("done", batch.keys),
            }
            yield self._format("client/job_refreshed.sql", **names), False
            yield self._format("client/job_outdated.sql", **names), True

    def gone(self, keys: Range | Listed) -> Iterator[sql.Composed]:
        """Yield the statements that remove what is stored of rows that are no longer there."""
        for stored in (self.into, self.errors):
            yield self._format(
                "client/job_gone.sql",
                stored=stored.identifier,
                done_same=self.key.same("done", "source"),
                listed=self.key.among("done", keys) if isinstance(keys, Listed) else sql.SQL("true"),
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
        changed = "false"
        mark: sql.Composable = sql.SQL("NULL")
        if self.marks and self.options.follow:
            changed, mark = "done.image_mark OPERATOR(pg_catalog.<>) source.dbinfer_mark", self.marks.mark
        elif self.marked:
            changed = "pg_catalog.age(source.dbinfer_mark) OPERATOR(pg_catalog.<) pg_catalog.age(done.xmin)"
            mark = sql.SQL("xmin")
        return self._format(
            "client/job_end.sql",
            changed=sql.SQL(changed),
            mark=mark,
            first=sql.Identifier(self.function.columns[0]),
            began=sql.SQL("{}::timestamptz").format(sql.Literal(began)),
            done_same=self.key.same("done", "source"),
        )

    def _insert(
        self, rows: Callable[[sql.Composable], sql.Composed], seen: sql.Composable, on_error: str
    ) -> sql.Composed:
        wanted = sql.SQL("{}, {img} IS NULL AS dbinfer_empty, {call} AS result{marks}").format(
            self.key.listed("source"),
            img=self._source_img,
            call=self._call(self._source_img, on_error),
            marks=seen,
        )
        return self._format(
            "client/job_batch.sql",
            rows=rows(wanted),
            **self._stored(on_error == "error"),
        )

    def _group(self, rows: Callable[[sql.Composable], sql.Composed], seen: sql.Composable) -> sql.Composed:
        wanted = sql.SQL("{}, {} AS dbinfer_img{}").format(self.key.listed("source"), self._source_img, seen)
        return self._format(
            "client/job_group_segments.sql" if self.platform.mpp else "client/job_group.sql",
            type=sql.SQL(self.key.columns[0].type),
            rows=rows(wanted),
            call=self._call(sql.SQL("dbinfer_img"), "null"),
            taken=self._taken,
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
            "conflict": self.conflict,
            "mark_names": self._mark_names,
            "marks": sql.SQL(", dbinfer_mark, dbinfer_digest" if self.marks else ""),
        }

    @property
    def _taken(self) -> sql.Composable:
        """Return what a batch takes: references are followed while the rows before them are scored."""
        if not self.refers:
            return image_of(self.img.type, sql.SQL("dbinfer_img"))
        return sql.SQL(
            "dbinfer._fetch_ahead(dbinfer_img::pg_catalog.text, dbinfer._resolve('', dbinfer_img IS NULL), 'null')"
        )

    @property
    def _source_img(self) -> sql.Identifier:
        return sql.Identifier("source", self.img.name)

    @property
    def _content(self) -> sql.Composable:
        """Return what says which image a row has: the image, or a reference and the version that a column has of it."""
        if not self.refers:
            return image_of(self.img.type, self._source_img)
        version = self.options.changed_column
        parts: list[sql.Composable] = [self._source_img]
        parts += [sql.Identifier("source", column(version))] if version else []
        text = sql.SQL("pg_catalog.concat_ws(' ', {})").format(sql.SQL(", ").join(parts))
        empty = sql.SQL("CASE WHEN {} IS NOT NULL THEN pg_catalog.convert_to({}, 'UTF8') END")
        return empty.format(self._source_img, text)

    @property
    def _marked(self) -> sql.Composable:
        """Return mark and digest of a row of `source`, as two more columns of a query, where they are kept."""
        if self.marks is None:
            return sql.SQL("")
        wanted = sql.SQL(", {} AS dbinfer_mark, {} AS dbinfer_digest")
        return wanted.format(self.marks.mark, self.source_digest)

    @property
    def _mark_names(self) -> sql.Composable:
        return sql.SQL("".join(f", {name}" for name in COLUMNS) if self.marks else "")

    def _current(self, exact: bool) -> sql.Composable:
        """Return the condition that what is stored needs no second look."""
        if not self.options.follow or self.marks is None:
            return sql.SQL("true")
        if exact:
            return sql.SQL("false")
        return sql.SQL("image_mark OPERATOR(pg_catalog.=) {}").format(self.marks.mark)

    @property
    def conflict(self) -> sql.Composable:
        """Return what an INSERT says of rows that are there."""
        # Two clients by mistake: the second one's row is the same
        return sql.SQL("ON CONFLICT DO NOTHING" if self.platform.kernel >= CONFLICT_SINCE else "")

    def _call(self, img: sql.Composable, on_error: str) -> sql.Composed:
        found = image_of(self.img.type, img, on_error)
        return self.function.call(found, Arguments(self.reference, on_error, self.options.top))

    def _rows(
        self,
        keys: Range | Listed | Bound,
        wanted: sql.Composable,
        retry: bool,
        current: sql.Composable | None = None,
    ) -> sql.Composed:
        """Return the query for the open rows of a range, of some keys, or of one key.

        Args:
            current: what a stored row must meet to count; None: nothing.
        """
        within = self._within("done", keys)
        current = current or sql.SQL("true")
        failed = self._format(
            "client/job_not_failed.sql",
            failed_same=self.key.same("failed", "source"),
            failed_above=self._within("failed", keys)["done_above"],
            current=current,
        )
        return self._format(
            "client/job_rows.sql",
            wanted=wanted,
            where=sql.SQL(self.options.where),
            done_same=self.key.same("done", "source"),
            current=current,
            not_failed=sql.SQL("true") if retry else failed,
            **within,
        )

    def _within(self, stored: str, keys: Range | Listed | Bound) -> dict[str, sql.Composable]:
        """Return the conditions that a row of `source` is among these keys."""
        low = keys.low if isinstance(keys, Range) else None
        if isinstance(keys, Range):
            upto = self.key.compared(UPTO, "source", keys.high)
        elif isinstance(keys, Listed):
            upto = self.key.among("source", keys)
        else:
            upto = self.key.compared(SAME, "source", keys)
        return {
            "above": self.key.compared(ABOVE, "source", low),
            "upto": upto,
            # Again, so that its index is read from there on, too
            "done_above": self.key.compared(ABOVE, stored, low),
        }

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


def _unnest(values: Sequence[Any], kind: str) -> sql.Composed:
    """Return an array as a column; one text is parsed much faster than the elements of an ARRAY[...]."""
    text = "{" + ",".join("NULL" if value is None else _element(value) for value in values) + "}"
    return sql.SQL("pg_catalog.unnest({}::pg_catalog.{}[])").format(sql.Literal(text), sql.SQL(kind))


def _element(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
