"""Who used what: each process counts its rows in a record of a file of the data directory, outside of any
transaction.

The first record is the file's own number and its segment. A process takes a record of its role and version by locking
its bytes, which the kernel unlocks however the process ends; the next process of that role and version continues the
record.

So nobody waits for anybody, counts outlive processes, and a role and version have no more records than processes that
ever used them at once. Records are written, not mapped: on a full disk a write fails, while a mapped page that cannot
be stored would end the backend.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
from bisect import bisect_left
from operator import add
from time import perf_counter, time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import process

FOLDER = "dbinfer_usage_2"
BOOK = "dbinfer.usage_2"  # in GD: an upgraded runtime goes on with the same file and records
# Seconds of a row up to which each place counts; the last place has the rest
BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Why a row had no result, by the SQLSTATE of its error: a damaged image, one beyond a limit, ...
KINDS = {
    "22P03": "image",
    "54000": "limit",
    "55000": "model",
    "58030": "store",
    "58000": "engine",
    "57014": "cancel",
}
OTHER = "other"
NAMES = (*KINDS.values(), OTHER)
# oid of the role, id of the version, rows, seconds, when the last row came, rows by BOUNDS, errors by NAMES
RECORD = struct.Struct("=IIqdd%dq%dq" % (len(BOUNDS) + 1, len(NAMES)))
SIZE = RECORD.size
MAGIC = b"dbinfer usage 2\n"
# Until 0.9 a record had the first five numbers; such a file is read, and no longer written
BEFORE, OLD = "dbinfer_usage", struct.Struct("=IIqdd")
OWNER = struct.Struct("=i")  # the segment, at the end of the file's number
NO_SEGMENT = -2  # PostgreSQL; -1 is Greenplum's coordinator
MOST = 100_000  # records of a file that are read; nobody has so many processes
# Bounds of a record, as a disk may have stored something else; the sum of all records still fits a bigint
MOST_ROWS, MOST_SECONDS, LAST = 1 << 44, 1e11, 253402300799.0

Key = Tuple[int, int]
# of what read() says
COLUMNS = ("source", "role", "version", "rows", "seconds", "last_used", "times", "errors")


def usage_path(folder: str = FOLDER) -> str:
    """Return the file of this process's database; a server process works in its data directory."""
    return os.path.join(os.getcwd(), folder, str(process.database()[1]))


def book_of(gd: Dict[str, Any], make: bool = True) -> Any:
    """Return the open file and the records taken in it; None where there is no file and none is to be made."""
    book = gd.get(BOOK)
    # removed by an uninstall: nobody sees what is counted there
    if book is not None and os.fstat(book["fd"]).st_nlink == 0:
        os.close(book["fd"])
        book = gd[BOOK] = None
    if book is None:
        place = usage_path()
        if not os.path.exists(place):
            if not make:
                return None
            _make(place)
        book = gd[BOOK] = {"fd": _open(place), "records": {}}
    return book


def _open(place: str) -> int:
    """Return the open file; where it is a copy of another segment's, one that begins at nothing takes its place."""
    while True:
        fd = os.open(place, os.O_RDWR | os.O_NOFOLLOW)
        if _is_own(fd):
            return fd
        # gpexpand makes a new segment of the coordinator's folder: the view would take both for one counter
        with os.fdopen(fd, "rb") as foreign, contextlib.suppress(FileNotFoundError):
            fcntl.flock(foreign, fcntl.LOCK_EX)
            # whoever waited for the lock finds the new file
            if os.fstat(fd).st_ino == os.stat(place).st_ino:
                _make(place, os.rename)


def _is_own(fd: int) -> bool:
    own = OWNER.pack(_owner())
    return process.content_id() is None or os.pread(fd, OWNER.size, OLD.size - OWNER.size) == own


def _owner() -> int:
    content = process.content_id()
    return NO_SEGMENT if content is None else content


def _make(place: str, put: Callable[[str, str], None] = os.link) -> None:
    """Make the file with its number; complete at once, by a link, for several processes may come together."""
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    new = "%s.%d" % (place, os.getpid())
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        head = MAGIC + os.urandom(OLD.size - len(MAGIC) - OWNER.size) + OWNER.pack(_owner())
        file.write(head.ljust(SIZE, b"\0"))
    try:
        with contextlib.suppress(FileExistsError):
            put(new, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


class Record(NamedTuple):
    """What one record says."""

    rows: int
    seconds: float
    last: float
    times: Tuple[int, ...]
    errors: Tuple[int, ...]

    def plus(self, other: Record) -> Record:
        """Return both counts together."""
        return Record(
            self.rows + other.rows,
            self.seconds + other.seconds,
            max(self.last, other.last),
            tuple(map(add, self.times, other.times)),
            tuple(map(add, self.errors, other.errors)),
        )


NOTHING = Record(0, 0.0, 0.0, (0,) * (len(BOUNDS) + 1), (0,) * len(NAMES))


def records_of(fd: int, kind: struct.Struct = RECORD) -> Tuple[str, List[Tuple[int, Key, Record]]]:
    """Return the number of a file, and place, key and counts of each record."""
    size = kind.size
    data = os.pread(fd, MOST * size, 0)
    whole = data[: len(data) // size * size]
    found = enumerate(kind.iter_unpack(whole[size:]), 1)
    return data[len(MAGIC) : OLD.size].hex(), [(n * size, (r[0], r[1]), _sound(*r[2:])) for n, r in found]


def _sound(rows: int, seconds: float, last: float, *counts: int) -> Record:
    """Return counts that can be added and shown: 0 for one that cannot be, also for what is no number."""
    counts = tuple(count if 0 <= count <= MOST_ROWS else 0 for count in counts)
    return Record(
        rows if 0 <= rows <= MOST_ROWS else 0,
        seconds if 0 <= seconds <= MOST_SECONDS else 0.0,
        last if 0 <= last <= LAST else 0.0,
        counts[: len(BOUNDS) + 1] or NOTHING.times,
        counts[len(BOUNDS) + 1 :] or NOTHING.errors,
    )


def take_record(book: Dict[str, Any], key: Key) -> List[Any]:
    """Return [file, place, rows, seconds, counts] of a record of this process: an idle one of that key, or another."""
    taken: Optional[List[Any]] = book["records"].get(key)
    if taken is None:
        fd = book["fd"]
        place = next((place for place in _places(fd, key) if _lock(fd, place)), None)
        if place is None:
            raise OSError("no room in %s" % usage_path())
        # read again: its last owner may have written since
        old = os.pread(fd, SIZE, place)
        kept = RECORD.unpack(old if len(old) == SIZE else bytes(SIZE))
        if kept[:2] not in (key, (0, 0)):
            # another process was faster with a new record
            fcntl.lockf(fd, fcntl.LOCK_UN, SIZE, place)
            return take_record(book, key)
        sound = _sound(*kept[2:])
        taken = book["records"][key] = [fd, place, sound.rows, sound.seconds, [*sound.times, *sound.errors]]
    return taken


def _places(fd: int, key: Key) -> Iterator[int]:
    _, records = records_of(fd)
    yield from (place for place, found, *_ in records if found in (key, (0, 0)))
    yield from range((len(records) + 1) * SIZE, MOST * SIZE, SIZE)


def _lock(fd: int, place: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, SIZE, place)
    except (BlockingIOError, PermissionError):
        return False
    return True


class Usage:
    """Counts what the tickets of this process score.

    Args:
        gd: PL/Python's GD; keeps the open file and the records that this process has taken.
    """

    def __init__(self, gd: Dict[str, Any]) -> None:
        self._gd = gd

    def count(self, token: str, caller: int) -> None:
        """Count the rows of a ticket for a role from now on."""
        tickets = self._gd["dbinfer.tickets"]
        ticket = tickets[token]
        if ticket.version_id != 0:
            tickets[token] = Counted(ticket, Meter(self._gd, (caller, ticket.version_id)))

    def read(self, role: Optional[int]) -> str:
        """Return the sums of this database's records as JSON, of one role or of all."""
        found = []
        # the open file: closing another of the same name would give all locks of this process back
        book = book_of(self._gd, make=False)
        for fd, kind in ((book["fd"] if book else None, RECORD), (self._before(), OLD)):
            number, records = records_of(fd, kind) if fd is not None else ("", [])
            sums: Dict[Key, Record] = {}
            for _, key, record in records:
                if key != (0, 0) and role in (None, key[0]):
                    sums[key] = sums.get(key, NOTHING).plus(record)
            for key, each in sums.items():
                times = dict(zip((*map(str, BOUNDS), "Infinity"), each.times))
                errors = dict(zip(NAMES, each.errors))
                values = (number, *key, each.rows, each.seconds, each.last, times, errors)
                found.append(dict(zip(COLUMNS, values)))
        return json.dumps(found)

    def _before(self) -> Optional[int]:
        """Return the open file of an earlier release; it stays open, for that release's runtime here may hold locks."""
        if BEFORE not in self._gd:
            place = usage_path(BEFORE)
            fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW) if os.path.exists(place) else None
            self._gd[BEFORE] = fd if fd is not None and _is_own(fd) else None
        found: Optional[int] = self._gd[BEFORE]
        return found

    def leave(self, databases: str) -> None:
        """Remove the counts of this database and of those that are gone (`databases`: oids of all, with commas)."""
        there = databases.split(",")
        for own in (usage_path(), usage_path(BEFORE)):
            with contextlib.suppress(OSError):
                folder = os.path.dirname(own)
                for name in os.listdir(folder):
                    if name == os.path.basename(own) or name not in there:
                        os.unlink(os.path.join(folder, name))
                os.rmdir(folder)  # only where it is empty


class Counted:
    """A ticket whose rows are counted, but for NULL images, warming up and what the ticket remembers."""

    __slots__ = ("_meter", "_rows", "_scan", "_seconds", "_ticket", "spec", "transaction", "version_id")

    def __init__(self, ticket: Any, meter: Meter) -> None:
        self._ticket, self._meter = ticket, meter
        self.spec, self.transaction, self.version_id = ticket.spec, ticket.transaction, ticket.version_id
        self._scan, self._rows, self._seconds = "", 0, 0.0

    def run(
        self,
        plpy: Any,
        task: str,
        img: Optional[bytes],
        on_error: Optional[str],
        k: Any,
        row: Optional[int] = None,
    ) -> Any:
        """Score one image; see Ticket.run."""
        if img is None or task == "warm":
            return self._ticket.run(plpy, task, img, on_error, k, row)
        if task == "batch":
            return self._batch(plpy, on_error, k)
        if task == "rest":
            return self._rest(plpy, on_error, k)
        begin, ticket = perf_counter(), self._ticket
        remembered, ticket.failed = ticket.remembered, ""
        try:
            return ticket.run(plpy, task, img, on_error, k, row)
        finally:
            if ticket.remembered == remembered:
                self._meter.add(1, perf_counter() - begin, ticket.failed)

    def _batch(self, plpy: Any, on_error: Optional[str], row: Any) -> Any:
        """Take a row of a batch; rows count when their batch is complete, because those left over come by `rest`."""
        if row[1] != self._scan:
            self._scan, self._rows, self._seconds = row[1], 0, 0.0
        begin = perf_counter()
        found = self._ticket.run(plpy, "batch", b"", on_error, row)
        self._seconds += perf_counter() - begin
        self._rows += row[3] is not None
        if found is not None and self._rows:
            self._meter.add(self._rows, self._seconds)
            self._rows, self._seconds = 0, 0.0
        return found

    def _rest(self, plpy: Any, on_error: Optional[str], scan: Any) -> Any:
        """Score what is left of a scan; rows that have no result had no image, or a bad one."""
        begin = perf_counter()
        found = self._ticket.run(plpy, "rest", b"", on_error, scan)
        rows = sum(one is not None for _, *kinds, _ in found for kind in kinds for one in kind or ())
        if rows:
            self._meter.add(rows, perf_counter() - begin)
        return found


class Meter:
    """Adds rows to a record of this process; failures are silent, because no statement may fail of counting."""

    __slots__ = ("_gd", "_key", "_record", "_works")

    def __init__(self, gd: Dict[str, Any], key: Key) -> None:
        self._gd, self._key = gd, key
        self._record: Optional[List[Any]] = None
        self._works = True

    def add(self, rows: int, seconds: float, failed: str = "") -> None:
        """Add rows, and the seconds that they took.

        Args:
            failed: SQLSTATE of the error that a row ended with.
        """
        if not self._works:
            return
        try:
            record = self._record
            if record is None:
                record = self._record = take_record(book_of(self._gd), self._key)
            record[2] += rows
            record[3] += seconds
            counts = record[4]
            counts[bisect_left(BOUNDS, seconds / rows)] += rows
            if failed:
                counts[len(BOUNDS) + 1 + NAMES.index(KINDS.get(failed, OTHER))] += 1
            os.pwrite(record[0], RECORD.pack(*self._key, record[2], record[3], time(), *counts), record[1])
        except OSError:
            self._works = False
