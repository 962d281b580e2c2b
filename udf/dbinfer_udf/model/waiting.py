"""The rows of a table that wait for a whole batch: in a process or, if that may end before they are scored, in a file.

A row function cannot know which row is its last one. So a call returns either nothing yet or the results of a whole
batch, and when the scan has ended, SQL asks for the results of the rows that are left.

A parallel worker does not know its last row either, and has ended when the rows that it left are scored; so may have
the process of a Greenplum segment. So it writes each row that waits into a file, over the rows of its last batch. The
file lies among the server's own temporary files and is named like them: the server removes what a crash leaves.

The name says by the server's word, and not by that of a scan, to whom the file belongs, because anybody may call
dbinfer._take. Members of pg_monitor see the names, so a digest stands there for scan and user.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time

from ..errors import EngineError, UdfError, UsageError
from ..host.process import is_worker, on_cluster, session, user
from ..tasks import BYTEA, FUNCTIONS, OF_A_JOB, WAITING_BYTES

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

    Row = Tuple[int, Optional[bytes]]
    # ids, results that are text, results that are bytea, rows that have left this process so far
    Results = Tuple[List[int], Optional[List[Optional[str]]], Optional[List[Optional[bytes]]], int]

FOLDER = os.path.join("base", "pgsql_tmp")
PREFIX = "pgsql_tmp_dbinfer"
HEAD = struct.Struct("=qq")  # rows that have left in whole batches, the number of the batch that waits
ROW = struct.Struct("=qqi")  # number of the batch, id, bytes of the image (-1: none)
# Longer than the processes of one scan wait for each other
CLUSTER_SECONDS = 7 * 86400.0
NAME = frozenset("0123456789abcdef.")
END = bytes(ROW.size)  # after the last row; no batch has the number 0


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
            FOLDER, "%s.%s.%s.%s.%d" % (PREFIX, session(), moment_of(scan), _known_as(scan), os.getpid())
        )
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, 0o600)
        except OSError as err:
            raise _no_room(err) from err
        self._write(HEAD.pack(0, self._batch), 0)

    def __del__(self) -> None:
        """Close the file, which stays until its rows are scored."""
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


def moment_of(scan: str) -> str:
    """Return the part of a scan's name that its statement has made."""
    return scan.split(".")[1] if scan.count(".") == 2 else ""


def _known_as(scan: str) -> str:
    """Return the digest that stands for a scan of the user whose rights count now."""
    return hashlib.sha256(("%d %s" % (user(), scan)).encode()).hexdigest()[:32]


def files_of(scan: str) -> List[str]:
    """Return the files of a scan on this host, but only of this session and user."""
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
        # names of older runtimes lack a part
        if parts[0] == PREFIX and len(parts) == 5:
            yield os.path.join(FOLDER, name), parts[1], parts[2], parts[3]
        elif parts[0] == PREFIX and len(parts) > 2:
            yield os.path.join(FOLDER, name), parts[1], "", ""


def remove_stale(scan: str) -> None:
    """Remove files that failed scans left: of owners that have ended, and of earlier statements of this session."""
    statement, own = moment_of(scan), session()
    for path, owner, found, _ in _files():
        # a scan within a scan has the same statement
        if _ended(owner, path) or (owner == own and found != statement and not is_worker()):
            remove_file(path)


def _ended(owner: str, path: str) -> bool:
    """Return whether nobody will ask for a file any more; a segment does not know which sessions there are."""
    try:
        if owner.startswith("session"):
            return time.time() - os.stat(path).st_mtime > CLUSTER_SECONDS
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError):
        return False
    return False


def remove_file(path: str) -> None:
    """Remove a file; another process may have done so."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def read_kept(path: str) -> Tuple[int, List[Row]]:
    """Return how many rows have left in whole batches, and those that wait."""
    with open(path, "rb") as file:
        data = file.read()
    left, batch = HEAD.unpack_from(data)
    rows: List[Row] = []
    place = HEAD.size
    # what follows is left over from earlier, longer batches
    while place + ROW.size <= len(data):
        found, number, size = ROW.unpack_from(data, place)
        if found != batch:
            break
        place += ROW.size + max(size, 0)
        rows.append((number, None if size < 0 else data[place - size : place]))
    return left, rows


# A scan may read a view that scans; any more scans were left behind by errors
MOST_SCANS = 8

# By user and scan: rows of a definer's function wait here, too, which the caller may not see
_scans: Dict[Tuple[int, str], Waiting] = {}


class Waiting:
    """The unfinished batch of one scan in this process.

    Args:
        size: rows of a whole batch; 1 where batches do not pay.
        kept: the file for the rows; None where this process scores them itself.
    """

    def __init__(self, size: int, kept: Optional[Kept]) -> None:
        self.size = size
        self.kept = kept
        self.left = 0
        self.rows: List[Row] = []
        self._bytes = 0

    def add(self, number: int, img: Optional[bytes]) -> bool:
        """Take a row; return whether the batch is whole."""
        self.rows.append((number, img))
        self._bytes += len(img or b"")
        # the first image decided the size, and later ones may be larger
        if len(self.rows) >= self.size or self._bytes >= WAITING_BYTES:
            return True
        if self.kept is not None:
            self.kept.add(number, img)
        return False

    def clear(self) -> None:
        """Forget the rows of a batch that was scored."""
        self.left += len(self.rows)
        self.rows, self._bytes = [], 0
        if self.kept is not None:
            self.kept.whole(self.left)


def take_row(model: Any, _img: bytes, k: Any) -> Optional[Results]:
    """Take (function, scan, id, image, on_error); return the results of a whole batch, or None.

    Raises:
        UsageError: no id, or the function is none of this model.
    """
    function, scan, number, img, on_error = k
    waiting = _scans.get((user(), scan))
    if waiting is None:
        waiting = _begin(model, function, scan, img)
    if number is None:
        raise UsageError("a row has no id", hint="Every row needs a value in the id column.")
    if not waiting.add(number, img):
        return None
    try:
        found = model.rows(function, on_error == "null", waiting.rows)
    except Exception:
        # if the engine was lost, this row comes again, to a model in this process; the others still wait
        waiting.rows.pop()
        raise
    numbers = [row[0] for row in waiting.rows]
    waiting.clear()
    return _results(function, numbers, found, waiting.left)


def _begin(model: Any, function: str, scan: str, img: Optional[bytes]) -> Waiting:
    known = FUNCTIONS.get(function)
    if known is None or not known.batch:
        raise UsageError("there is no function %s() that scores in batches" % function)
    if known.task is not None:
        model.require(known.task, known.sql + "_table")
    while len(_scans) >= MOST_SCANS:
        _drop(next(iter(_scans)))
    # before the file is made: if the engine is lost here, the row comes again and makes the file then
    size = model.batch_rows(img)
    kept = Kept(scan) if _ends_early() and not scan.startswith(OF_A_JOB) else None
    _scans[user(), scan] = found = Waiting(size, kept)
    return found


def _drop(key: Tuple[int, str]) -> None:
    """Forget a scan and remove its file, or scans would leave ever more files."""
    found = _scans.pop(key, None)
    if found is not None and found.kept is not None:
        remove_file(found.kept.path)


def _ends_early() -> bool:
    """Return whether another process scores what is left: this one is a parallel worker, or belongs to a cluster."""
    return on_cluster() or is_worker()


def score_rest(model: Any, _img: bytes, k: Any) -> List[Results]:
    """Score what a scan has left on this host: (function, scan, on_error); the results of each of its processes."""
    function, scan, on_error = k
    own = _scans.get((user(), scan))
    found = [] if own is None or own.kept is not None else [(own.left, own.rows)]
    files = files_of(scan)
    found += [read_kept(path) for path in files]
    again = False
    try:
        return [
            _results(function, [row[0] for row in rows], model.rows(function, on_error == "null", rows), left)
            for left, rows in found
        ]
    except EngineError:
        # all rows come again, to a model in this process
        again = True
        raise
    finally:
        if not again:
            _forget(scan, files)


def _forget(scan: str, files: List[str]) -> None:
    _scans.pop((user(), scan), None)
    for path in files:
        remove_file(path)
    remove_stale(scan)


def _results(function: str, numbers: List[int], found: List[Any], left: int) -> Results:
    if FUNCTIONS[function].result == BYTEA:
        return numbers, None, found, left
    return numbers, found, None, left
