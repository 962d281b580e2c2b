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
from time import perf_counter, time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import process

FOLDER = "dbinfer_usage"
BOOK = "dbinfer.usage"  # in GD: an upgraded runtime goes on with the same file and records
RECORD = struct.Struct("=IIqdd")  # oid of the role, id of the version, rows, seconds, when the last row came
SIZE = RECORD.size
MAGIC = b"dbinfer usage 1\n"
OWNER = struct.Struct("=i")  # the segment, at the end of the file's number
NO_SEGMENT = -2  # PostgreSQL; -1 is Greenplum's coordinator
MOST = 100_000  # records of a file that are read; nobody has so many processes
# Bounds of a record, as a disk may have stored something else; the sum of all records still fits a bigint
MOST_ROWS, MOST_SECONDS, LAST = 1 << 44, 1e11, 253402300799.0

Key = Tuple[int, int]


def usage_path() -> str:
    """Return the file of this process's database; a server process works in its data directory."""
    return os.path.join(os.getcwd(), FOLDER, str(process.database()[1]))


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
        if process.content_id() is None or os.pread(fd, OWNER.size, SIZE - OWNER.size) == OWNER.pack(
            _owner()
        ):
            return fd
        # gpexpand makes a new segment of the coordinator's folder: the view would take both for one counter
        with os.fdopen(fd, "rb") as foreign, contextlib.suppress(FileNotFoundError):
            fcntl.flock(foreign, fcntl.LOCK_EX)
            # whoever waited for the lock finds the new file
            if os.fstat(fd).st_ino == os.stat(place).st_ino:
                _make(place, os.rename)


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
        file.write(MAGIC + os.urandom(SIZE - len(MAGIC) - OWNER.size) + OWNER.pack(_owner()))
    try:
        with contextlib.suppress(FileExistsError):
            put(new, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def records_of(fd: int) -> Tuple[str, List[Tuple[int, Key, int, float, float]]]:
    """Return the number of a file, and place, key, rows, seconds and last moment of each record."""
    data = os.pread(fd, MOST * SIZE, 0)
    whole = data[: len(data) // SIZE * SIZE]
    found = enumerate(RECORD.iter_unpack(whole[SIZE:]), 1)
    return data[len(MAGIC) : SIZE].hex(), [(n * SIZE, (r[0], r[1]), *_sound(*r[2:])) for n, r in found]


def _sound(rows: int, seconds: float, last: float) -> Tuple[int, float, float]:
    """Return counts that can be added and shown: 0 for one that cannot be, also for what is no number."""
    return (
        rows if 0 <= rows <= MOST_ROWS else 0,
        seconds if 0 <= seconds <= MOST_SECONDS else 0.0,
        last if 0 <= last <= LAST else 0.0,
    )


def take_record(book: Dict[str, Any], key: Key) -> List[Any]:
    """Return [file, place, rows, seconds] of a record of this process: an idle one of that key, or a new one."""
    taken: Optional[List[Any]] = book["records"].get(key)
    if taken is None:
        fd = book["fd"]
        place = next((place for place in _places(fd, key) if _lock(fd, place)), None)
        if place is None:
            raise OSError("no room in %s" % usage_path())
        # read again: its last owner may have written since
        old = os.pread(fd, SIZE, place)
        kept = RECORD.unpack(old) if len(old) == SIZE else (*key, 0, 0.0, 0.0)
        if kept[:2] not in (key, (0, 0)):
            # another process was faster with a new record
            fcntl.lockf(fd, fcntl.LOCK_UN, SIZE, place)
            return take_record(book, key)
        taken = book["records"][key] = [fd, place, *_sound(*kept[2:])[:2]]
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
        """Return the sums of this file's records as JSON, of one role or of all."""
        sums: Dict[Key, List[float]] = {}
        # the open file: closing another of the same name would give all locks of this process back
        book = book_of(self._gd, make=False)
        number, records = records_of(book["fd"]) if book else ("", [])
        for _, key, rows, seconds, last in records:
            if key != (0, 0) and role in (None, key[0]):
                so_far = sums.get(key, [0, 0.0, 0.0])
                sums[key] = [so_far[0] + rows, so_far[1] + seconds, max(so_far[2], last)]
        names = ("source", "role", "version", "rows", "seconds", "last_used")
        return json.dumps([dict(zip(names, (number, *key, *values))) for key, values in sums.items()])

    def leave(self, databases: str) -> None:
        """Remove the counts of this database and of those that are gone (`databases`: oids of all, with commas)."""
        own, there = usage_path(), databases.split(",")
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
        begin, remembered = perf_counter(), self._ticket.remembered
        try:
            return self._ticket.run(plpy, task, img, on_error, k, row)
        finally:
            if self._ticket.remembered == remembered:
                self._meter.add(1, perf_counter() - begin)

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

    def add(self, rows: int, seconds: float) -> None:
        """Add rows, and the seconds that they took."""
        if not self._works:
            return
        try:
            record = self._record
            if record is None:
                record = self._record = take_record(book_of(self._gd), self._key)
            record[2] += rows
            record[3] += seconds
            os.pwrite(record[0], RECORD.pack(*self._key, record[2], record[3], time()), record[1])
        except OSError:
            self._works = False
