"""The file in which the processes of one database and data directory count: records of 32 bytes, each of one process.

The first record is the file's own number, with the segment whose it is. A process takes a record of its role and
version by locking its bytes, which the kernel unlocks however the process ends; the next one with them goes
on with the same record.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from . import process

FOLDER = "dbinfer_usage"
BOOK = "dbinfer.usage"  # in GD: an upgraded runtime goes on with the same file and records
RECORD = struct.Struct("=IIqdd")  # oid of the role, id of the version, rows, seconds, when the last row came
SIZE = RECORD.size
MAGIC = b"dbinfer usage 1\n"
OWNER = struct.Struct("=i")  # the segment, at the end of the file's number
NO_SEGMENT = -2  # PostgreSQL; -1 is Greenplum's coordinator
MOST = 100_000  # records of a file that are looked at; nobody has so many processes
# What a record may say; a disk may have written something else. The sum of all is still a bigint
MOST_ROWS, MOST_SECONDS, LAST = 1 << 44, 1e11, 253402300799.0

Key = Tuple[int, int]


def path() -> str:
    """Return the file of this process's database; a server process works in its data directory."""
    return os.path.join(os.getcwd(), FOLDER, str(process.database()[1]))


def book_of(gd: Dict[str, Any], make: bool = True) -> Any:
    """Return the open file and the records taken in it; None where there is no file and none is to be made."""
    book = gd.get(BOOK)
    # removed by an uninstall: what is counted there nobody sees
    if book is not None and os.fstat(book["fd"]).st_nlink == 0:
        os.close(book["fd"])
        book = gd[BOOK] = None
    if book is None:
        place = path()
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
            # who waited for the lock finds the new one
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


def take(book: Dict[str, Any], key: Key) -> List[Any]:
    """Return [file, place, rows, seconds] of a record of this process: an idle one of that key, or a new one."""
    taken: Optional[List[Any]] = book["records"].get(key)
    if taken is None:
        fd = book["fd"]
        place = next((place for place in _places(fd, key) if _lock(fd, place)), None)
        if place is None:
            raise OSError("no room in %s" % path())
        # read again: its last owner may have written since
        old = os.pread(fd, SIZE, place)
        kept = RECORD.unpack(old) if len(old) == SIZE else (*key, 0, 0.0, 0.0)
        if kept[:2] not in (key, (0, 0)):
            # somebody else was faster with a new record
            fcntl.lockf(fd, fcntl.LOCK_UN, SIZE, place)
            return take(book, key)
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
