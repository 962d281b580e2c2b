"""load: from files to rows, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2

from dbinfer.connection import session
from dbinfer.errors import DataError, UsageError
from dbinfer.imagefiles import Found, Refused, find, read_ahead
from dbinfer.load.copybinary import MESSAGE_BYTES, Stream, encode
from dbinfer.load.table import Columns, ImageTable
from dbinfer.names import TableName, column
from dbinfer.platform import detect
from dbinfer.progress import OnProgress, Progress, silent
from dbinfer.report import Report

Row = tuple[bytes | None, ...]


@dataclass(frozen=True)
class LoadOptions:
    """Where images go, and under which names.

    Attributes:
        table: the table's name as a user writes it; made where it does not exist.
        label_from: 'folder': the name of each file's folder is stored as its label; None: no label is stored.
        base: stored paths are relative to this folder; None: to the parent of the folder that is loaded.
        column, path_column, label_column: of the image, of the stored path, of the label.
        recursive: also folders within folders.
    """

    table: str = "images"
    label_from: str | None = None
    base: Path | None = None
    column: str = "img"
    path_column: str = "path"
    label_column: str = "label"
    recursive: bool = True

    def columns(self) -> Columns:
        """Return the columns as the catalog has them.

        Raises:
            UsageError: a name is none, or `label_from` is another word than folder.
        """
        if self.label_from not in (None, "folder"):
            raise UsageError(f"label_from is {self.label_from!r}, but must be 'folder'")
        label = column(self.label_column) if self.label_from else None
        return Columns(column(self.path_column), column(self.column), label)


@dataclass(frozen=True)
class LoadReport(Report):
    """What a load did.

    Attributes:
        table: its full name; created: whether it was made now.
        loaded, skipped: numbers of files; skipped ones have their path in the table already.
        refused: files and folders that were left out, and why.
        bytes: of the loaded images; seconds: of the whole load.
    """

    table: str
    created: bool
    loaded: int
    skipped: int
    refused: tuple[Refused, ...]
    bytes: int
    seconds: float


@dataclass
class _Count:
    """What a load has done so far."""

    loaded: int = 0
    skipped: int = 0
    bytes: int = 0
    refused: list[Refused] = field(default_factory=list)


def load(
    sources: Sequence[Path | str] | Path | str,
    options: LoadOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> LoadReport:
    """Load image files into a table; all of them, or after an error or Ctrl-C none.

    Where no file can be loaded and none is there already, nothing is changed either (the table is not made).

    Args:
        sources: folders and image files.

    Raises:
        DataError: a source is missing or has no files, or the table or the server does not take the rows.
        UsageError: names that are none, or a source outside `options.base`.
    """
    begin, options, count = time.monotonic(), options or LoadOptions(), _Count()
    name, columns = TableName.parse(options.table), options.columns()
    paths = [Path(source) for source in ([sources] if isinstance(sources, Path | str) else sources)]
    found = find(paths, options.base, count.refused, options.recursive)
    if not found and not count.refused:
        raise DataError(f"there are no files in {', '.join(repr(str(path)) for path in paths)}")
    # A table of images can be filled before dbinfer is there
    with session(dsn, needs_dbinfer=False) as conn:
        table = ImageTable(conn, name, columns, detect(conn))
        todo = _new_files(found, table.known_paths({item.path for item in found}), count)
        _send(table, _rows(todo, count, columns.label is not None, progress))
        if count.loaded:
            table.finish()
        elif not count.skipped:
            conn.rollback()  # or an empty table would be left
    created = table.created and count.loaded > 0
    numbers = (count.loaded, count.skipped, tuple(count.refused), count.bytes)
    return LoadReport(str(table.name), created, *numbers, time.monotonic() - begin)


def _new_files(found: Iterable[Found], known: set[str], count: _Count) -> list[Found]:
    """Return the files whose path the table lacks; two files with one path: the second is refused."""
    taken: dict[str, Found] = {}
    for item in found:
        if item.path in known:
            count.skipped += 1
        elif taken.setdefault(item.path, item).file != item.file:
            reason = f"has the same path as {taken[item.path].file}: {item.path}; use --base"
            count.refused.append(Refused(str(item.file), reason))
    return list(taken.values())


def _rows(files: list[Found], count: _Count, label: bool, progress: OnProgress) -> Iterator[Row]:
    progress(Progress("loading", 0, len(files), "images"))
    for done, outcome in enumerate(read_ahead(files), 1):
        if isinstance(outcome, Refused):
            count.refused.append(outcome)
        else:
            item, data = outcome
            count.loaded += 1
            count.bytes += len(data)
            folder = (item.folder.encode(),) if label else ()
            yield (item.path.encode(), data, *folder)
        progress(Progress("loading", done, len(files), "images"))


def _send(table: ImageTable, rows: Iterator[Row]) -> None:
    stream = Stream(encode(rows))
    with table.conn.cursor() as cur:
        try:
            cur.copy_expert(table.copy_statement(), stream, MESSAGE_BYTES)
        except psycopg2.Error:
            if stream.error is not None:  # the reason why the server got no more rows
                raise stream.error from None
            raise
        finally:
            rows.close()  # type: ignore[attr-defined]  # the threads that read ahead end now, not some time later
