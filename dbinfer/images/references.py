"""load --reference: the files of a store as rows that name them, with the version that each has now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import execute_values

from dbinfer.base.errors import DataError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.database.platform import Platform
from dbinfer.database.sql import TableName, read
from dbinfer.images.stores import here, reading
from dbinfer.images.table import Columns, lock_load
from dbinfer_udf.store.reader import list_files

LISTED = sql.Identifier("pg_temp", "dbinfer_listed")
# What such a table has besides the path, and what a new one gets it as
MORE = {"etag": "text", "bytes": "bigint", "file_modified": "timestamptz", "loaded_at": "timestamptz"}
CHANGES = "etag = l.etag, bytes = l.bytes, file_modified = l.modified, loaded_at = pg_catalog.now()"
Entry = tuple[str, str | None, int, str]


@dataclass(frozen=True)
class Loaded:
    """What became of the files of a folder: how many are new, known and changed; bytes of those that were written."""

    created: bool
    new: int
    known: int
    changed: int
    bytes: int


def load_references(
    conn: Connection,
    name: TableName,
    columns: Columns,
    platform: Platform,
    folder: str,
    *,
    update: bool,
    progress: OnProgress,
) -> Loaded:
    """Add the files of a store to a table, as references; those that are there stay, or get their new version.

    Args:
        folder: a store, or store/folder.
        update: bring those that have changed up to date.

    Raises:
        DataError: the table does not fit, or the folder has no files.
    """
    with conn.cursor() as cur:
        table = _Table(cur, name.resolve(cur), columns, platform)
        lock_load(cur, {"table": table.name.identifier.as_string(cur)}, progress)
        created = table.prepare()
        found = table.take(_pages(cur, folder, platform), progress)
        if not found:
            raise DataError(f"there are no files in {folder!r}", "List what you may read: dbinfer store")
        changed, size = table.changed()
        new, added = table.add()
        if update and changed:
            table.run("update_references", changes=sql.SQL(CHANGES))
        if new or (update and changed):
            table.run("analyze")
        return Loaded(created, new, found - new - changed, changed, added + (size if update else 0))


def _pages(cur: Cursor, folder: str, platform: Platform) -> Iterator[list[Entry]]:
    last, settings = "", here(cur) if platform.tables_only else None
    while True:
        if settings is not None:
            with reading():
                found = list_files(settings, folder, last)
            page = [(name, etag, size, when) for name, size, etag, when in found]
        else:
            cur.execute(read("client/list_page.sql"), {"folder": folder, "last": last})
            page = cur.fetchall()
        if not page:
            return
        yield page
        last = page[-1][0]


class _Table:
    """A table of references in the open transaction."""

    def __init__(self, cur: Cursor, name: TableName, columns: Columns, platform: Platform) -> None:
        self.cur, self.name, self.columns, self.platform = cur, name, columns, platform

    def prepare(self) -> bool:
        """Make the table, or check it; return whether it was made."""
        quoted = self.name.identifier.as_string(self.cur)
        self.cur.execute(read("client/columns.sql"), {"table": quoted})
        there = {column for column, _ in self.cur.fetchall()}
        label = self.columns.label
        if not there:
            text = sql.SQL(", {} pg_catalog.text").format(sql.Identifier(label)) if label else sql.SQL("")
            self.run("create_references", label=text)
            return True
        self.name.require_own(self.cur)
        wanted = {self.columns.path: "text", **MORE, **({label: "text"} if label else {})}
        if missing := [column for column in wanted if column not in there]:
            add = ", ".join(f"ADD {column} {wanted[column]}" for column in missing)
            raise DataError(
                f"table {self.name} has no column {', '.join(missing)}",
                f"Choose another table with --table, or: ALTER TABLE {self.name} {add};",
            )
        return False

    def take(self, pages: Iterator[Sequence[Entry]], progress: OnProgress) -> int:
        """Take what a store lists; return how many files."""
        found = 0
        self.run("create_listed")
        insert = sql.SQL("INSERT INTO {} (path, etag, bytes, modified, label) VALUES %s").format(LISTED)
        for page in pages:
            rows = [(*entry, _folder(entry[0])) for entry in page]
            execute_values(self.cur, insert, rows, page_size=len(rows))
            found += len(rows)
            progress(Progress("listing", found, None, "files"))
        return found

    def changed(self) -> tuple[int, int]:
        """Return how many files have changed, and their bytes."""
        self.run("changed_references")
        return self._counted()

    def add(self) -> tuple[int, int]:
        """Add the files that are not there; return how many, and their bytes."""
        label = self.columns.label
        self.run(
            "load_references",
            label=sql.SQL("{},").format(sql.Identifier(label)) if label else sql.SQL(""),
            new_label=sql.SQL("l.label," if label else ""),
        )
        return self._counted()

    def _counted(self) -> tuple[int, int]:
        count, size = self.cur.fetchone() or (0, 0)
        return int(count), int(size)

    def run(self, file: str, **more: Any) -> None:
        """Execute sql/client/FILE.sql."""
        text = "ANALYZE {table}" if file == "analyze" else self.platform.adapt(read(f"client/{file}.sql"))
        names = {"table": self.name.identifier, "path": sql.Identifier(self.columns.path), "listed": LISTED}
        self.cur.execute(sql.SQL(text).format(**(names | more)))


def _folder(reference: str) -> str:
    """Return the name of the folder in which a file lies."""
    parts = reference.split("/")
    return parts[-2] if len(parts) > 1 else ""
