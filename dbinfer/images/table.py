"""The table of images: made so that all cores or segments score it, filled by binary COPY, and which files it
already has.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.database.connection import one
from dbinfer.database.copy import MESSAGE_BYTES, Stream, encode
from dbinfer.database.platform import PARALLEL_SINCE, Platform
from dbinfer.database.sql import TableName, read
from dbinfer.images.files import Found, Outcome, Refused
from dbinfer.images.sources import Outcomes

MD5_BYTES = 16
Compared = Generator[tuple[Outcome, bool], None, None]


class Stored(NamedTuple):
    """What the table knows of a path: the image's bytes, and the file's time, None where it was not kept."""

    size: int
    modified: int | None


@dataclass
class Batch:
    """The files of a batch, by what becomes of them.

    Attributes:
        new: their path is not in the table; suspects: they may have changed; same: they have not.
        twins: other files with a path that one of `new` has.
    """

    new: list[Found] = field(default_factory=list)
    suspects: list[Found] = field(default_factory=list)
    same: list[Found] = field(default_factory=list)
    twins: list[Refused] = field(default_factory=list)


def sort(files: Iterable[Found], known: dict[str, Stored], taken: dict[str, Found], careful: bool) -> Batch:
    """Return the files by what becomes of them.

    Args:
        taken: files of paths that this load has met; new ones are added.
        careful: suspect also files of which only the size is known to be the same.
    """
    batch = Batch()
    for item in files:
        first = taken.setdefault(item.path, item)
        if first is not item:
            if (first.file, first.place) != (item.file, item.place):
                reason = f"has the same path as {first.file}: {item.path}; use --base"
                batch.twins.append(Refused(str(item.file), reason))
        elif item.path not in known:
            batch.new.append(item)
        elif _is_same(item, known[item.path], careful):
            batch.same.append(item)
        else:
            batch.suspects.append(item)
    return batch


def _is_same(item: Found, stored: Stored, careful: bool) -> bool:
    if item.size != stored.size:
        return item.size < 0  # it cannot even be looked at: what was loaded stays
    if item.modified is None or stored.modified is None:
        return not careful
    return item.modified == stored.modified


def differing(outcomes: Outcomes, digests: dict[str, bytes]) -> Compared:
    """Yield each file with whether its content is another than the table's."""
    with closing(outcomes):  # the threads that read ahead end now, not some time later
        for outcome in outcomes:
            if isinstance(outcome, Refused):
                yield outcome, False
            else:
                item, data = outcome
                there = digests.get(item.path, b"")
                # Greenplum 6 has no other hash; nothing is refused because of it
                kind = "md5" if len(there) == MD5_BYTES else "sha256"
                yield outcome, hashlib.new(kind, data, usedforsecurity=False).digest() != there


TEXT = ("text", "character varying")
# Columns that load fills where a table has them: the file's time, and when the image came
MODIFIED, LOADED = EXTRA = "file_modified", "loaded_at"
MICROSECONDS = "pg_catalog.round(pg_catalog.date_part('epoch', {}) * 1000000)::pg_catalog.int8"
# What PostgreSQL counts its timestamps from, 2000-01-01, in microseconds since 1970
EPOCH = 946_684_800_000_000
Row = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Columns:
    """Names of the columns; without `label` no label is stored."""

    path: str = "path"
    img: str = "img"
    label: str | None = None

    @property
    def types(self) -> dict[str, tuple[str, ...]]:
        """Return for each column, in the order of COPY, the types that it may have."""
        labels = {self.label: TEXT} if self.label else {}
        return {self.path: TEXT, self.img: ("bytea",), **labels}


class ImageTable:
    """A table of images in the open transaction of `conn`; opening it makes it or checks it.

    Attributes:
        name: with its schema.
        created: whether it was made now.
        extra: those of EXTRA that it has.

    Raises:
        DataError: it is no table, or its columns do not fit.
    """

    def __init__(
        self,
        conn: Connection,
        name: TableName,
        columns: Columns,
        platform: Platform,
        progress: OnProgress = silent,
    ) -> None:
        self.conn, self.columns, self.platform = conn, columns, platform
        with conn.cursor() as cur:
            self.name = name.resolve(cur)
            self._quoted = {"table": self.name.identifier.as_string(cur)}
            # Before it looks: two loads at once would both make the table, or both find a path missing
            lock_load(cur, self._quoted, progress)
            cur.execute(read("client/target.sql"), {**self._quoted, "into": self._quoted["table"]})
            kind = one(cur)
            self.created = self._empty = kind is None
            if self.created:
                cur.execute(self._create(cur))
                self.extra: tuple[str, ...] = EXTRA
            else:
                self.name.require_own(cur)
                self._check(cur, kind)

    def known(self, asked: Sequence[str]) -> dict[str, Stored]:
        """Return what the table knows of those of the asked paths that it has."""
        if self.created and self._empty:
            return {}
        text = MICROSECONDS if MODIFIED in self.extra else "NULL::pg_catalog.int8"
        modified = sql.SQL(text).format(sql.Identifier(MODIFIED))
        rows = self._asked("client/known_paths.sql", asked, modified=modified)
        return {path: Stored(size, when) for path, size, when in rows}

    def digests(self, asked: Sequence[str]) -> dict[str, bytes]:
        """Return the sha256 of the images of paths."""
        return {path: bytes(digest) for path, digest in self._asked("client/known_digests.sql", asked)}

    def _asked(self, file: str, asked: Sequence[str], **more: sql.Composable) -> list[tuple[Any, ...]]:
        # A name that is not valid UTF-8 cannot be sent; its file is refused when it is read
        texts = [path.encode(errors="replace").decode() for path in asked]
        with self.conn.cursor() as cur:
            text = self.platform.adapt(read(file))
            cur.execute(self.format(text, asked=sql.Literal(texts), **more))
            return cur.fetchall()

    def row(self, item: Found, data: bytes) -> Row:
        """Return the row of a new image, as `add` takes it."""
        label = (item.folder.encode(),) if self.columns.label else ()
        when = (timestamp(item.modified),) if MODIFIED in self.extra else ()
        return (item.path.encode(), data, *label, *when)

    def add(self, rows: Iterator[Row]) -> None:
        """Append the rows of new images."""
        names = [*self.columns.types, *(name for name in self.extra if name == MODIFIED)]
        self.copy(self.name.identifier, names, rows)
        self._empty = False

    def copy(self, table: sql.Identifier, names: Sequence[str], rows: Iterator[Row]) -> None:
        """Stream rows into some columns of a table."""
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        stream = Stream(encode(rows))
        with self.conn.cursor() as cur:
            try:
                statement = sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT binary)").format(table, columns)
                cur.copy_expert(statement, stream, MESSAGE_BYTES)
            except psycopg2.Error:
                if stream.error is not None:  # the reason why the server got no more rows
                    raise stream.error from None
                raise
            finally:
                rows.close()  # type: ignore[attr-defined]  # what reads ahead ends now, not some time later

    def finish(self) -> None:
        """Let PostgreSQL scan the table in parallel, and the planner know its size."""
        with self.conn.cursor() as cur:
            cur.execute(read("client/may_tune.sql"), self._quoted)
            mine, is_set = cur.fetchone() or (False, True)
            # Images lie outside the table's pages: to the planner it is small and worth few workers
            if mine and not is_set and self._parallel:
                text = "ALTER TABLE {table} SET (parallel_workers = {workers})"
                cur.execute(self.format(text, workers=self._workers(cur)))
            cur.execute(self.format("ANALYZE {table}"))

    @property
    def _parallel(self) -> bool:
        return not self.platform.mpp and self.platform.kernel >= PARALLEL_SINCE

    def _create(self, cur: Cursor) -> sql.Composed:
        label = (
            sql.SQL(", {} pg_catalog.text").format(sql.Identifier(self.columns.label))
            if self.columns.label
            else sql.SQL("")
        )
        text = self.platform.adapt(read("client/create_images.sql"))
        return self.format(text, label=label)

    def _check(self, cur: Cursor, kind: str) -> None:
        # An ordinary table or a partitioned one
        if kind not in "rp":
            raise DataError(f"{self.name} is not a table", "Choose another name with --table.")
        cur.execute(read("client/columns.sql"), self._quoted)
        types = dict(cur.fetchall())
        self.extra = tuple(name for name in EXTRA if types.get(name) == "timestamp with time zone")
        wanted = self.columns.types
        missing = [column for column in wanted if column not in types]
        if missing:
            add = ", ".join(f"ADD {TableName(None, column)} {wanted[column][0]}" for column in missing)
            raise DataError(
                f"table {self.name} has no column {', '.join(missing)}",
                f"Choose another table, or add the column: ALTER TABLE {self.name} {add};",
            )
        for column, allowed in wanted.items():
            if types[column] not in allowed:
                raise DataError(
                    f"column {column} of table {self.name} is {types[column]}, but must be {allowed[0]}",
                    "Choose another table with --table.",
                )

    def _workers(self, cur: Cursor) -> sql.Composable:
        cur.execute(
            # 1024 is the most that the table's option takes
            "SELECT least(greatest(pg_catalog.current_setting('max_parallel_workers')::int, 1), 1024)"
        )
        return sql.Literal(one(cur))

    def format(self, text: str, **more: sql.Composable) -> sql.Composed:
        """Return a statement with the table's and its columns' names put in."""
        path, img = sql.Identifier(self.columns.path), sql.Identifier(self.columns.img)
        return sql.SQL(text).format(table=self.name.identifier, path=path, img=img, **more)


def lock_load(cur: Cursor, quoted: dict[str, str], progress: OnProgress) -> None:
    """Wait for other loads into a table, and say for whom: any session may hold this lock."""
    cur.execute(read("client/lock_load.sql"), quoted)
    if not one(cur):
        cur.execute(read("client/load_holder.sql"), quoted)
        pid, user = cur.fetchone() or ("unknown", "unknown")
        note = f"process {pid} of user {user} loads into this table, or holds the lock for that; waiting for its end."
        progress(Progress("waiting", note=note))
        cur.execute(read("client/wait_load.sql"), quoted)


def timestamp(microseconds: int | None) -> bytes | None:
    """Return a time as binary COPY takes it."""
    return None if microseconds is None else struct.pack("!q", microseconds - EPOCH)
