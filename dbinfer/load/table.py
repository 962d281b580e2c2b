"""The table of images: made so that it is scored by all cores or segments, or checked when it is there."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one
from dbinfer.errors import DataError
from dbinfer.names import TableName
from dbinfer.platform import PARALLEL_SINCE, Platform
from dbinfer.sqlfiles import read

TEXT = ("text", "character varying")
FEW_PATHS, READ_AT_ONCE = 10_000, 10_000


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

    Raises:
        DataError: it is no table, or its columns do not fit.
    """

    def __init__(self, conn: Connection, name: TableName, columns: Columns, platform: Platform) -> None:
        self.conn, self.columns, self.platform = conn, columns, platform
        with conn.cursor() as cur:
            self.name = name.resolve(cur)
            self._quoted = {"table": self.name.identifier.as_string(cur)}
            # Before it looks: two loads at once would both make the table, or both find a path missing
            cur.execute(read("client/lock_load.sql"), self._quoted)
            cur.execute(read("client/target.sql"), {**self._quoted, "into": self._quoted["table"]})
            kind = one(cur)
            self.created = kind is None
            if self.created:
                cur.execute(self._create(cur))
            else:
                self._check(cur, kind)

    def known_paths(self, asked: Set[str]) -> set[str]:
        """Return those of the asked paths that are in the table.

        Few are looked up there. For many it is faster to read all paths; only asked ones are kept.
        """
        if self.created:
            return set()
        if len(asked) > FEW_PATHS:
            # A name makes it a cursor of the server: not all paths come at once
            with self.conn.cursor("dbinfer_known_paths") as cur:
                cur.itersize = READ_AT_ONCE
                cur.execute(self._format("SELECT {path} FROM {table}"))
                return {row[0] for row in cur if row[0] in asked}
        with self.conn.cursor() as cur:
            # A name that is not valid UTF-8 cannot be sent; its file is refused when it is read
            texts = [path.encode(errors="replace").decode() for path in asked]
            cur.execute(self._format(read("client/known_paths.sql"), asked=sql.Literal(texts)))
            return {row[0] for row in cur}

    def copy_statement(self) -> sql.Composed:
        """Return the COPY statement that takes the columns in binary."""
        columns = sql.SQL(", ").join(map(sql.Identifier, self.columns.types))
        return self._format("COPY {table} ({columns}) FROM STDIN WITH (FORMAT binary)", columns=columns)

    def finish(self) -> None:
        """Let PostgreSQL scan the table in parallel, and the planner know its size."""
        with self.conn.cursor() as cur:
            cur.execute(read("client/may_tune.sql"), self._quoted)
            mine, is_set = cur.fetchone() or (False, True)
            # Images lie outside the table's pages: to the planner it is small and worth few workers
            if mine and not is_set and self._parallel:
                text = "ALTER TABLE {table} SET (parallel_workers = {workers})"
                cur.execute(self._format(text, workers=self._workers(cur)))
            cur.execute(self._format("ANALYZE {table}"))

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
        return self._format(text, label=label)

    def _check(self, cur: Cursor, kind: str) -> None:
        # An ordinary table or a partitioned one
        if kind not in "rp":
            raise DataError(f"{self.name} is not a table", "Choose another name with --table.")
        cur.execute(read("client/columns.sql"), self._quoted)
        types = dict(cur.fetchall())
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

    def _format(self, text: str, **more: sql.Composable) -> sql.Composed:
        path, img = sql.Identifier(self.columns.path), sql.Identifier(self.columns.img)
        return sql.SQL(text).format(table=self.name.identifier, path=path, img=img, **more)
