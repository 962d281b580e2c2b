"""load: from files to rows, in one transaction, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import cast

from dbinfer.connection import session
from dbinfer.errors import DataError
from dbinfer.imagefiles import Found, Refused
from dbinfer.load.changes import Batch, Compared, differing, sort
from dbinfer.load.options import LoadOptions, LoadReport
from dbinfer.load.replacing import changed_row, replace
from dbinfer.load.sources import Reader, Source, open_sources
from dbinfer.load.table import ImageTable, Row
from dbinfer.names import TableName
from dbinfer.platform import detect
from dbinfer.progress import OnProgress, Progress, silent

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


def _teller(sources: list[Source], progress: OnProgress) -> Callable[[int], None]:
    """Return what counts bytes as done, and tells it."""
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
