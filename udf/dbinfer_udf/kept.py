"""The rows that wait for a batch in a process whose end comes before theirs: a small file of the data directory.

A parallel worker does not see its last row coming, and has ended when the rows that it left are scored; so may have
the process of a Greenplum segment. So it writes each row that waits, over those of its last batch. The file lies among
the server's own temporary files and is named as they are: the server removes what a crash has left of it.
"""

from __future__ import annotations

import os
import struct
import time

from .errors import UdfError, UsageError
from .process import on_cluster, session_number

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
        if not NAME.issuperset(scan):
            raise UsageError("%r is not the name of a scan" % scan)
        # whose end is the end of the scan: a process of a segment may end before, and the coordinator's is elsewhere
        owner = _session() if on_cluster() else scan.partition(".")[0]
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        remove_stale(scan)
        self.path = os.path.join(FOLDER, "%s.%s.%s.%d" % (PREFIX, owner, scan, os.getpid()))
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


def names(scan: str) -> List[str]:
    """Return the files of a scan on this host."""
    return [path for path, _, found in _files() if found == scan]


def _files() -> Iterator[Tuple[str, str, str]]:
    """Yield path, owner and scan of each file of ours."""
    try:
        listed = os.listdir(FOLDER)
    except OSError:
        return
    for name in listed:
        prefix, _, rest = name.partition(".")
        if prefix == PREFIX:
            owner, _, found = rest.rpartition(".")[0].partition(".")
            yield os.path.join(FOLDER, name), owner, found


def remove_stale(scan: str) -> None:
    """Remove what scans that failed have left: of owners that have ended, and of earlier statements of this session.

    Not those of another session, which a scan's name may claim: anybody may call dbinfer._take.
    """
    statement, own = scan.rpartition(".")[0] + ".", _session()
    for path, owner, found in _files():
        # a scan within a scan has the same statement
        if _ended(owner, path) or (owner == own and not found.startswith(statement)):
            remove(path)


def _session() -> str:
    """Return how the files of this session are known, in its own process or in all of its processes on a cluster."""
    return "session%d" % session_number() if on_cluster() else str(os.getpid())


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
