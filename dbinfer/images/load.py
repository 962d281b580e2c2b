"""load: image files into a table, found, checked by their first bytes, and streamed batch by batch in one
transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import cast

from psycopg2 import sql

from dbinfer.base.errors import DataError, UsageError
from dbinfer.base.options import documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import session
from dbinfer.database.platform import detect
from dbinfer.database.sql import TableName, column, read
from dbinfer.images.files import Found, Refused
from dbinfer.images.references import load_references
from dbinfer.images.sources import Reader, Source, open_sources
from dbinfer.images.table import (
    LOADED,
    MODIFIED,
    Batch,
    Columns,
    Compared,
    ImageTable,
    Row,
    differing,
    sort,
    timestamp,
)


@documented
@dataclass(frozen=True)
class LoadOptions:
    """Where images go, and under which names."""

    table: str = option("images", "TABLE or SCHEMA.TABLE; created if it does not exist.")
    label_from: str | None = option(
        None, "'folder': store the name of each file's folder as its label.", metavar="folder"
    )
    base: Path | None = option(
        None, "Store paths relative to this folder. Default: the parent of the folder you load."
    )
    column: str = option("img", "Column with the images.")
    path_column: str = option("path", "Column with the paths.")
    label_column: str = option("label", "Column with the labels.")
    recursive: bool = option(True, "Include subfolders.")
    update: bool = option(False, "Replace images whose files have changed since they were loaded.")
    reference: str | None = option(
        None,
        "Load references to the files of a store instead of images: see 'dbinfer store'.",
        metavar="STORE[/FOLDER]",
    )
    from_list: Path | None = option(
        None, "Load the files named in this file, one per line; - reads stdin.", metavar="FILE|-"
    )

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
        loaded, skipped: numbers of files; skipped ones are in the table as they are.
        refused: files and folders that were left out, and why.
        bytes: of the images that were loaded or replaced; seconds: of the whole load.
        changed: files that differ from what the table has of their path, and were left so.
        updated: the same with `update`: the table has them now.
    """

    table: str
    created: bool
    loaded: int
    skipped: int
    refused: tuple[Refused, ...]
    bytes: int
    seconds: float
    changed: int = 0
    updated: int = 0

    @property
    def known(self) -> int:
        """How many files had their path in the table already."""
        return self.skipped + self.changed + self.updated


# The temporary table, see client/create_changed.sql
CHANGED = sql.Identifier("pg_temp", "dbinfer_changed")
COLUMNS = ("path", "img", "label", "modified")


def changed_row(item: Found, data: bytes | None) -> Row:
    """Return the row of a changed file, as `replace` takes it; without data only its time is new."""
    return (item.path.encode(), data, item.folder.encode(), timestamp(item.modified))


def replace(table: ImageTable, rows: Iterator[Row]) -> None:
    """Put images in the place of those of the same path; ids and other columns stay."""
    with table.conn.cursor() as cur:
        cur.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(CHANGED))
        text = table.platform.adapt(read("client/create_changed.sql"))
        cur.execute(table.format(text, changed=CHANGED))
        table.copy(CHANGED, COLUMNS, rows)
        text, (image, time) = read("client/replace_changed.sql"), _assignments(table)
        for new, which in ((image, "c.img IS NOT NULL"), (time, "c.img IS NULL")):
            if new:
                parts = {"changes": _settings(new), "which": sql.SQL(which)}
                cur.execute(table.format(text, changed=CHANGED, **parts))


def _assignments(table: ImageTable) -> tuple[dict[str, sql.SQL], dict[str, sql.SQL]]:
    """Return what is set where the image is new, and where only the file's time is."""
    time = {MODIFIED: sql.SQL("c.modified")} if MODIFIED in table.extra else {}
    image = {table.columns.img: sql.SQL("c.img"), **time}
    if table.columns.label:
        image[table.columns.label] = sql.SQL("c.label")
    if LOADED in table.extra:
        image[LOADED] = sql.SQL("pg_catalog.now()")
    return image, time


def _settings(new: Mapping[str, sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), to) for name, to in new.items())


# Paths that are looked up at once; what a load holds grows with this, and with nothing else
BATCH = 20_000


@dataclass
class _Count:
    """What a load has done so far."""

    loaded: int = 0
    skipped: int = 0
    changed: int = 0
    updated: int = 0
    bytes: int = 0
    refused: list[Refused] = field(default_factory=list)

    @property
    def known(self) -> int:
        """How many files have their path in the table already."""
        return self.skipped + self.changed + self.updated


@dataclass
class _Load:
    """A load under way."""

    table: ImageTable
    options: LoadOptions
    count: _Count
    tell: Callable[[int], None]
    # only what comes from several places can have one path twice
    taken: dict[str, Found] | None


def load(
    sources: Sequence[Path | str] | Path | str = (),
    options: LoadOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> LoadReport:
    """Load image files into a table; all of them, or after an error or Ctrl-C none.

    Where no file can be loaded and none is there already, nothing is changed either (the table is not made).

    Args:
        sources: folders, image files, and zip and tar archives.

    Raises:
        DataError: a source is missing, damaged or has no files, or the table or the server does not take the rows.
        UsageError: names that are none, or a source outside `options.base`.
    """
    begin, options, count = time.monotonic(), options or LoadOptions(), _Count()
    name, columns = TableName.parse(options.table), options.columns()
    paths = [Path(source) for source in ([sources] if isinstance(sources, Path | str) else sources)]
    if options.reference is not None:
        return _load_references(paths, options, dsn, progress)
    if not paths and not options.from_list:
        raise DataError(
            "there is nothing to load", "Name folders, files or archives, or a list: --from-list."
        )
    # A table of images can be filled before dbinfer is there
    with (
        open_sources(paths, options.from_list, options.base, options.recursive) as opened,
        session(dsn, needs_dbinfer=False) as conn,
    ):
        table = ImageTable(conn, name, columns, detect(conn), progress)
        several = len(paths) + bool(options.from_list) > 1
        under_way = _Load(table, options, count, _teller(opened, progress), {} if several else None)
        if not _load_all(under_way, opened) and not count.refused:
            places = [*paths, options.from_list] if options.from_list else paths
            raise DataError(f"there are no files in {', '.join(repr(str(place)) for place in places)}")
        if count.loaded + count.updated:
            table.finish()
        elif not count.known:
            conn.rollback()  # or an empty table would be left
    created = table.created and count.loaded > 0
    numbers = (count.loaded, count.skipped, tuple(count.refused), count.bytes, time.monotonic() - begin)
    return LoadReport(str(table.name), created, *numbers, changed=count.changed, updated=count.updated)


def _load_references(
    paths: list[Path], options: LoadOptions, dsn: str | None, progress: OnProgress
) -> LoadReport:
    begin = time.monotonic()
    if paths or options.from_list:
        raise UsageError("--reference loads what a store lists, and no files", "Leave out the files.")
    with session(dsn) as conn:
        name = TableName.parse(options.table)
        done = load_references(
            conn,
            name,
            options.columns(),
            detect(conn),
            options.reference or "",
            update=options.update,
            progress=progress,
        )
        with conn.cursor() as cur:
            full = str(name.resolve(cur))
    return LoadReport(
        table=full,
        created=done.created,
        loaded=done.new,
        skipped=done.known,
        refused=(),
        bytes=done.bytes,
        seconds=time.monotonic() - begin,
        changed=0 if options.update else done.changed,
        updated=done.changed if options.update else 0,
    )


def _teller(sources: list[Source], progress: OnProgress) -> Callable[[int], None]:
    """Return a function that counts bytes as done and reports them."""
    # the walk that counts them is for the bar alone
    total = None if progress is silent else sum(source.total for source in sources)
    done = 0

    def tell(weight: int) -> None:
        nonlocal done
        done += weight
        progress(Progress("loading", done, total, "bytes"))

    tell(0)
    return tell


def _load_all(load: _Load, sources: list[Source]) -> bool:
    """Load all sources; return whether there was any file."""
    found = False
    for source in sources:
        entries, new, changed = source.entries(load.count.refused), source.reader(), source.reader()
        while files := list(islice(entries, BATCH)):
            found = True
            known = load.table.known([item.path for item in files])
            taken = {} if load.taken is None else load.taken
            _load_batch(load, sort(files, known, taken, load.options.update), (new, changed))
    return found


def _load_batch(load: _Load, batch: Batch, readers: tuple[Reader, Reader]) -> None:
    count = load.count
    count.refused += batch.twins
    count.skipped += len(batch.same)
    load.tell(sum(item.weight for item in batch.same))
    if batch.new:
        load.table.add(_new_rows(load, batch.new, readers[0]))
    if batch.suspects:
        digests = load.table.digests([item.path for item in batch.suspects])
        changes = _changes(load, batch.suspects, differing(readers[1](batch.suspects), digests))
        if load.options.update:
            replace(load.table, _changed_rows(load, changes))
        else:
            count.changed += sum(changed for _, changed in changes)


def _new_rows(load: _Load, files: list[Found], read: Reader) -> Iterator[Row]:
    count, outcomes = load.count, read(files)
    with closing(outcomes):  # the threads that read ahead end now, not some time later
        for item, outcome in zip(files, outcomes, strict=True):
            if isinstance(outcome, Refused):
                count.refused.append(outcome)
            else:
                count.loaded += 1
                count.bytes += len(outcome[1])
                yield load.table.row(*outcome)
            load.tell(item.weight)


def _changes(load: _Load, files: list[Found], compared: Compared) -> Compared:
    """Yield what could be read; the rest is refused, and what has only a new time is skipped."""
    with closing(compared):
        for item, (outcome, changed) in zip(files, compared, strict=True):
            if isinstance(outcome, Refused):
                load.count.refused.append(outcome)
            else:
                load.count.skipped += not changed
                yield outcome, changed
            load.tell(item.weight)


def _changed_rows(load: _Load, changes: Compared) -> Iterator[Row]:
    with closing(changes):
        for outcome, changed in changes:
            item, data = cast("tuple[Found, bytes]", outcome)
            load.count.updated += changed
            load.count.bytes += len(data) if changed else 0
            yield changed_row(item, data if changed else None)
