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

from ..errors import EngineError, ImageError, UdfError, UsageError
from ..host.process import is_worker, on_cluster, session, user
from ..store.declared import DEPTH, HANDLE
from ..tasks import BYTEA, FUNCTIONS, OF_A_JOB, WAITING_BYTES

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

    from ..store.reader import Pending

    # an image, one that is on its way from a store, or none
    Image = Union[bytes, Pending, None]
    Row = Tuple[int, Image]
    # ids, results that are text, results that are bytea, rows that have left this process so far
    Results = Tuple[List[int], Optional[List[Optional[str]]], Optional[List[Optional[bytes]]], int]

FOLDER = os.path.join("base", "pgsql_tmp")
PREFIX = "pgsql_tmp_dbinfer"
HEAD = struct.Struct("=qq")  # rows that have left in whole batches, the number of the batch that waits
ROW = struct.Struct("=qqi")  # number of the batch, id, bytes of the image (-1: none; below: of a reference)
REFERENCE = -2
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

    def add(self, number: int, img: Image) -> None:
        """Keep a row that waits."""
        row = _kept(self._batch, number, img)
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


def _kept(batch: int, number: int, img: Image) -> bytes:
    if img is None:
        return ROW.pack(batch, number, -1)
    if isinstance(img, bytes):
        return ROW.pack(batch, number, len(img)) + img
    record = img.record()
    return ROW.pack(batch, number, REFERENCE - len(record)) + record


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
        length = size if size >= 0 else max(REFERENCE - size, 0)
        place += ROW.size + length
        content = data[place - length : place]
        rows.append((number, content if size >= 0 else _restored(content) if size <= REFERENCE else None))
    return left, rows


def _restored(record: bytes) -> Pending:
    from ..store.reader import restored

    return restored(record)


# A scan may read a view that scans; any more scans were left behind by errors
MOST_SCANS = 8

# By user and scan: rows of a definer's function wait here, too, which the caller may not see
_scans: Dict[Tuple[int, str], Waiting] = {}


class Waiting:
    """The rows of one scan that wait in this process.

    Args:
        size: rows of a whole batch; 1 where batches do not pay.
        kept: the file for the rows; None where this process scores them itself.
    """

    def __init__(self, size: int, kept: Optional[Kept]) -> None:
        self.size = size
        self.kept = kept
        self.left = 0
        self.rows: List[Row] = []
        # rows that wait besides, while their images are on the way from a store
        self._ahead = 0
        self._bytes = 0

    def add(self, number: int, img: Image) -> bool:
        """Take a row; return whether a batch is whole."""
        self.rows.append((number, img))
        if isinstance(img, bytes):
            self._bytes += len(img)
        elif img is not None and not self._ahead:
            self._ahead, self.size = DEPTH, max(self.size, DEPTH)
        # the first image decided the size, and later ones may be larger
        if len(self.rows) >= self.size + self._ahead or self._bytes >= WAITING_BYTES:
            return True
        if self.kept is not None:
            self.kept.add(number, img)
        return False

    @property
    def due(self) -> List[Row]:
        """The rows of the whole batch."""
        return self.rows[: self.size] if self._ahead else self.rows

    def clear(self, rows: int) -> None:
        """Forget the rows of a batch that was scored."""
        self.left += rows
        self.rows, self._bytes = self.rows[rows:], 0
        if self.kept is not None:
            self.kept.whole(self.left)
            for row in self.rows:
                self.kept.add(*row)


def take_row(model: Any, _img: bytes, k: Any) -> Optional[Results]:
    """Take (function, scan, id, image, on_error); return the results of a whole batch, or None.

    Raises:
        UsageError: no id, or the function is none of this model.
    """
    function, scan, number, img, on_error = k
    if img is not None and img.startswith(HANDLE):
        img = _asked_for(img)
    waiting = _scans.get((user(), scan))
    if waiting is None:
        waiting = _begin(model, function, scan, img)
    if number is None:
        raise UsageError("a row has no id", hint="Every row needs a value in the id column.")
    if not waiting.add(number, img):
        return None
    due = waiting.due
    try:
        found = _scored(model, function, on_error == "null", due)
    except Exception:
        # if the engine was lost, this row comes again, to a model in this process; the others still wait
        waiting.rows.pop()
        raise
    numbers = [row[0] for row in due]
    waiting.clear(len(due))
    return _results(function, numbers, found, waiting.left)


def _asked_for(handle: bytes) -> Image:
    """Return the image on its way for which a handle stands; what only looks like one is an image like any other."""
    from ..store.reader import pending_of

    return pending_of(handle) or handle


def _scored(model: Any, function: str, null: bool, rows: List[Row]) -> List[Any]:
    """Return the results of rows, as many at a time as their images have room."""
    found: List[Any] = []
    while len(found) < len(rows):
        part: List[Tuple[int, Optional[bytes]]] = []
        size = 0
        for number, img in rows[len(found) :]:
            data = _data(number, img, null)
            part.append((number, data))
            size += len(data or b"")
            if size >= WAITING_BYTES:
                break
        found += model.rows(function, null, part)
    return found


def _data(number: int, img: Image, null: bool) -> Optional[bytes]:
    """Return an image, when it has come; None for one that cannot be had, where bad images give None."""
    if img is None or isinstance(img, bytes):
        return img
    try:
        return img.result()
    except ImageError as err:
        if null:
            return None
        raise err.of_row(number) from err


def _begin(model: Any, function: str, scan: str, img: Image) -> Waiting:
    known = FUNCTIONS.get(function)
    if known is None or not known.batch:
        raise UsageError("there is no function %s() that scores in batches" % function)
    if known.task is not None:
        model.require(known.task, known.sql + "_table")
    while len(_scans) >= MOST_SCANS:
        _drop(next(iter(_scans)))
    # before the file is made: if the engine is lost here, the row comes again and makes the file then
    size = model.batch_rows(_data(0, img, True))
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
            _results(
                function, [row[0] for row in rows], _scored(model, function, on_error == "null", rows), left
            )
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
