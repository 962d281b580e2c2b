"""The rows of a table that wait in a process for a whole batch; standard library only.

A row function cannot know which row is its last one. So a call returns either nothing yet or the results of a whole
batch; SQL asks for those that are left when the scan has ended.
"""

from __future__ import annotations

from .batch_rows import BINARY, TASK_OF, WAITING_BYTES
from .engine.errors import EngineError
from .errors import UsageError
from .kept import Kept, names, read, remove, remove_stale
from .process import is_worker, on_cluster, user

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    Row = Tuple[int, Optional[bytes]]
    # ids, results that are text, results that are bytea, rows that have left this process so far
    Results = Tuple[List[int], Optional[List[Optional[str]]], Optional[List[Optional[bytes]]], int]

# A scan may look at a view that scans; what more there is was left behind by errors
MOST_SCANS = 8
# Scans of dbinfer score have names that begin so: their statements find out themselves which rows are left
LEFT_ALONE = "job"

# by user and scan: within a definer's function rows wait that the caller may not see
_scans: Dict[Tuple[int, str], Waiting] = {}


class Waiting:
    """The unfinished batch of one scan in this process.

    Args:
        size: rows of a whole batch; 1 where batches do not pay.
        kept: where the rows are written down; None where this process scores them itself.
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
        # the first image chose the size, and later ones may be larger
        if len(self.rows) >= self.size or self._bytes >= WAITING_BYTES:
            return True
        if self.kept is not None:
            self.kept.add(number, img)
        return False

    def clear(self) -> None:
        """Let go the rows of a batch that was scored."""
        self.left += len(self.rows)
        self.rows, self._bytes = [], 0
        if self.kept is not None:
            self.kept.whole(self.left)


def batch(model: Any, _img: bytes, k: Any) -> Optional[Results]:
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
        # where the engine was lost this row comes again, to a model in this process; the others still wait
        waiting.rows.pop()
        raise
    numbers = [row[0] for row in waiting.rows]
    waiting.clear()
    return _results(function, numbers, found, waiting.left)


def _begin(model: Any, function: str, scan: str, img: Optional[bytes]) -> Waiting:
    if function not in TASK_OF:
        raise UsageError("there is no function %s() that scores in batches" % function)
    task = TASK_OF[function]
    if task is not None:
        model.require(task, function + "_table")
    while len(_scans) >= MOST_SCANS:
        _drop(next(iter(_scans)))
    # first: where the engine is lost here, the row comes again, and its file must not be there yet
    size = model.batch_rows(img)
    kept = Kept(scan) if _ends_early() and not scan.startswith(LEFT_ALONE) else None
    _scans[user(), scan] = found = Waiting(size, kept)
    return found


def _drop(key: Tuple[int, str]) -> None:
    """Let go a scan with its file, or scans without end would leave files without end."""
    found = _scans.pop(key, None)
    if found is not None and found.kept is not None:
        remove(found.kept.path)


def _ends_early() -> bool:
    """Return whether another process scores what is left: this is a parallel worker, or belongs to a cluster."""
    return on_cluster() or is_worker()


def rest(model: Any, _img: bytes, k: Any) -> List[Results]:
    """Score what a scan has left on this host: (function, scan, on_error); the results of each of its processes."""
    function, scan, on_error = k
    own = _scans.get((user(), scan))
    found = [] if own is None or own.kept is not None else [(own.left, own.rows)]
    files = names(scan)
    found += [read(path) for path in files]
    again = False
    try:
        return [
            _results(function, [row[0] for row in rows], model.rows(function, on_error == "null", rows), left)
            for left, rows in found
        ]
    except EngineError:
        # all of them are asked for again, of a model in this process
        again = True
        raise
    finally:
        if not again:
            _forget(scan, files)


def _forget(scan: str, files: List[str]) -> None:
    _scans.pop((user(), scan), None)
    for path in files:
        remove(path)
    remove_stale(scan)


def _results(function: str, numbers: List[int], found: List[Any], left: int) -> Results:
    return (numbers, None, found, left) if function in BINARY else (numbers, found, None, left)
