"""load: from files to rows, in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2

from dbinfer.connection import session
from dbinfer.errors import DataError
from dbinfer.imagefiles import Found, Refused, find, read_ahead
from dbinfer.load.copybinary import MESSAGE_BYTES, Stream, encode
from dbinfer.load.table import Columns, ImageTable
from dbinfer.names import TableName
from dbinfer.platform import detect

Progress = Callable[[int, int, int], None]
Row = tuple[bytes | None, ...]


@dataclass(frozen=True)
class LoadOptions:
    """What to load where.

    Attributes:
        table: the table's name as a user writes it; made where it does not exist.
        columns: its columns; with `columns.label` the name of each file's folder is stored there.
        base: stored paths are relative to this folder; None: to the parent of the folder that is loaded.
        recursive: also folders within folders.
    """

    table: str = "images"
    columns: Columns = field(default_factory=Columns)
    base: Path | None = None
    recursive: bool = True


@dataclass
class LoadReport:
    """What a load did.

    Attributes:
        table: its full name; created: whether it was made now.
        loaded, skipped: numbers of files; skipped ones have their path in the table already.
        refused: files and folders that were left out, and why.
        bytes: of the loaded images; seconds: of the whole load.
    """

    table: str = ""
    created: bool = False
    loaded: int = 0
    skipped: int = 0
    refused: list[Refused] = field(default_factory=list)
    bytes: int = 0
    seconds: float = 0.0


def load(
    sources: Sequence[Path],
    options: LoadOptions,
    dsn: str | None = None,
    progress: Progress = lambda files, size, total: None,
) -> LoadReport:
    """Load image files into a table; all of them, or after an error or Ctrl-C none.

    Where no file can be loaded and none is there already, nothing is changed either (the table is not made).

    Args:
        progress: called with files done, bytes sent and the number of files to load.

    Raises:
        DataError: a source is missing or has no files, or the table or the server does not take the rows.
        UsageError: names that are none, or a source outside `options.base`.
    """
    begin = time.monotonic()
    report = LoadReport()
    name = TableName.parse(options.table)
    found = find(sources, options.base, report.refused, options.recursive)
    if not found and not report.refused:
        raise DataError(f"there are no files in {', '.join(repr(str(source)) for source in sources)}.")
    with session(dsn, needs_dbinfer=False) as conn:
        table = ImageTable(conn, name, options.columns, detect(conn))
        report.table, report.created = str(table.name), table.created
        todo = _new_files(found, table.known_paths({item.path for item in found}), report)
        _send(table, _rows(todo, report, options.columns.label is not None, progress))
        if report.loaded:
            table.finish()
        elif not report.skipped:
            conn.rollback()
            report.created = False
    report.seconds = time.monotonic() - begin
    return report


def _new_files(found: Iterable[Found], known: set[str], report: LoadReport) -> list[Found]:
    """Return the files whose path the table lacks; two files with one path: the second is refused."""
    taken: dict[str, Found] = {}
    for item in found:
        if item.path in known:
            report.skipped += 1
        elif taken.setdefault(item.path, item).file != item.file:
            reason = f"has the same path as {taken[item.path].file}: {item.path}; use --base"
            report.refused.append(Refused(str(item.file), reason))
    return list(taken.values())


def _rows(files: list[Found], report: LoadReport, label: bool, progress: Progress) -> Iterator[Row]:
    progress(0, 0, len(files))
    for done, outcome in enumerate(read_ahead(files), 1):
        if isinstance(outcome, Refused):
            report.refused.append(outcome)
        else:
            item, data = outcome
            report.loaded += 1
            report.bytes += len(data)
            folder = (item.folder.encode(),) if label else ()
            yield (item.path.encode(), data, *folder)
        progress(done, report.bytes, len(files))


def _send(table: ImageTable, rows: Iterator[Row]) -> None:
    stream = Stream(encode(rows))
    with table.conn.cursor() as cur:
        try:
            cur.copy_expert(table.copy_statement(), stream, MESSAGE_BYTES)
        except psycopg2.Error:
            if stream.error is not None:
                raise stream.error from None
            raise
        finally:
            rows.close()  # type: ignore[attr-defined]
