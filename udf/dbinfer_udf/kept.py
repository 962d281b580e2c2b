"""The rows that wait for a batch in a process whose end comes before theirs: a small file of the data directory.

A parallel worker does not see its last row coming, and has ended when the rows that it left are scored; so may have
the process of a Greenplum segment. So it writes each row that waits, over those of its last batch. The file lies among
the server's own temporary files and is named as they are: the server removes what a crash has left of it.

Its name says whose it is by the server's word, not by that of a scan: anybody may call dbinfer._take. Members of
pg_monitor see the names, and so a digest stands there for scan and user.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time

from .errors import UdfError, UsageError
from .process import is_worker, session, user

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Iterator, List, Optional, Tuple

    Row = Tuple[int, Optional[bytes]]

FOLDER = os.path.join("base", "pgsql_tmp")
PREFIX = "pgsql_tmp_dbinfer"
HEAD = struct.Struct("=qq")  # rows that have left in whole batches, the number of the batch that waits
ROW = struct.Struct("=qqi")  # number of the batch, id, bytes of the image (-1: none)
# longer than the processes of one scan wait for each other
CLUSTER_SECONDS = 7 * 86400.0
NAME = frozenset("0123456789abcdef.")
END = bytes(ROW.size)  # behind the last row: no batch has the number 0


class Kept:
    """The file of one scan in this process.

    Args:
        scan: its name, `pid.moment.number`: of the session's process, and of its statement.
    """

    def __init__(self, scan: str) -> None:
        self._batch, self._end = 1, HEAD.size
        if not NAME.issuperset(scan) or scan.count(".") != 2:
            raise UsageError("%r is not the name of a scan" % scan[:100])
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        remove_stale(scan)
        self.path = os.path.join(
            FOLDER, "%s.%s.%s.%s.%d" % (PREFIX, session(), moment(scan), _known_as(scan), os.getpid())
        )
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, 0o600)
        except OSError as err:
            raise _no_room(err) from err
        self._write(HEAD.pack(0, self._batch), 0)

    def __del__(self) -> None:
        """Close the file, which stays for who scores its rows."""
        if hasattr(self, "_fd"):
            os.close(self._fd)

    def add(self, number: int, img: Optional[bytes]) -> None:
        """Keep a row that waits."""
        row = ROW.pack(self._batch, number, -1 if img is None else len(img)) + (img or b"")
        self._write(row + END, self._end)
        self._end += len(row)

    def whole(self, rows: int) -> None:
        """Note that no row waits any more, and how many have left so far."""
        self._batch, self._end = self._batch + 1, HEAD.size
        self._write(HEAD.pack(rows, self._batch), 0)

    def _write(self, data: bytes, place: int) -> None:
        try:
            if os.pwrite(self._fd, data, place) != len(data):
                raise OSError(28, os.strerror(28))
        except OSError as err:
            raise _no_room(err) from err


def _no_room(err: OSError) -> UdfError:
    return UdfError(
        "the rows that wait for a batch cannot be kept on disk: %s" % err.strerror,
        hint="Make room for temporary files in the data directory.",
        sqlstate="53100" if err.errno == 28 else "58030",
    )


def moment(scan: str) -> str:
    """Return the part of a scan's name that its statement has made."""
    return scan.split(".")[1] if scan.count(".") == 2 else ""


def _known_as(scan: str) -> str:
    """Return what stands for a scan of the user whose rights count now."""
    return hashlib.sha256(("%d %s" % (user(), scan)).encode()).hexdigest()[:32]


def names(scan: str) -> List[str]:
    """Return the files of a scan on this host, of this session and user alone."""
    own = session(), _known_as(scan)
    return [path for path, owner, _, found in _files() if (owner, found) == own]


def _files() -> Iterator[Tuple[str, str, str, str]]:
    """Yield path, owner, moment and scan (as the name has them) of each file of ours."""
    try:
        listed = os.listdir(FOLDER)
    except OSError:
        return
    for name in listed:
        parts = name.split(".")
        # those of older runtimes have a part less
        if parts[0] == PREFIX and len(parts) == 5:
            yield os.path.join(FOLDER, name), parts[1], parts[2], parts[3]
        elif parts[0] == PREFIX and len(parts) > 2:
            yield os.path.join(FOLDER, name), parts[1], "", ""


def remove_stale(scan: str) -> None:
    """Remove what scans that failed have left: of owners that have ended, and of earlier statements of this session."""
    statement, own = moment(scan), session()
    for path, owner, found, _ in _files():
        # a scan within a scan has the same statement
        if _ended(owner, path) or (owner == own and found != statement and not is_worker()):
            remove(path)


def _ended(owner: str, path: str) -> bool:
    """Return whether nobody will ask for a file; a segment does not know which sessions there are."""
    try:
        if owner.startswith("session"):
            return time.time() - os.stat(path).st_mtime > CLUSTER_SECONDS
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False


def remove(path: str) -> None:
    """Remove a file; another process may have done so."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def read(path: str) -> Tuple[int, List[Row]]:
    """Return how many rows have left in whole batches, and those that wait."""
    with open(path, "rb") as file:
        data = file.read()
    left, batch = HEAD.unpack_from(data)
    rows: List[Row] = []
    place = HEAD.size
    # what follows the end is left of earlier, longer batches
    while place + ROW.size <= len(data):
        found, number, size = ROW.unpack_from(data, place)
        if found != batch:
            break
        place += ROW.size + max(size, 0)
        rows.append((number, None if size < 0 else data[place - size : place]))
    return left, rows
