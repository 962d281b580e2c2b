"""The host cache: model files on disk beside the database, in folders that are this user's alone, checked against
the registry's digests.

Each model has a folder named after its digests: model.xml, model.bin, compiled blobs, stamp.json, trial.json and marks.
The stamp says which inode, size and times the files had when their sha256 was last computed; a file that anything has
touched since is hashed again, and a damaged one is fetched again. trial.json has what the model's trial found on this
host. Marks say which databases have used the model, and the folder's time says when; see housekeeping.
"""

from __future__ import annotations

import os
import stat
import time

from .. import fastjson
from ..errors import ModelError, UdfError
from . import process

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple, Type


def require_own(folder: str, name: str, option: str, kind: Type[UdfError]) -> None:
    """Make a folder (mode 0700) where needed, and check that it is private to this user.

    Args:
        name: what the folder is, for an error.
        option: the option of `dbinfer install` that chooses another.
        kind: class of the error.

    Raises:
        UdfError: it cannot be made; `foreign`: it belongs to somebody else or is open to others.
    """
    another = "hoose another folder: dbinfer install %s FOLDER" % option
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)  # not stat: a link leads wherever its owner wants
    except OSError as err:
        why, hint, foreign = "cannot be made: %s" % err.strerror, "C" + another, False
    else:
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            why = "belongs to user id %d, or is not a folder" % found.st_uid
            hint = "Remove it, or c" + another
            foreign = True
        elif found.st_mode & 0o077:
            why = "is open to others (mode %o)" % (found.st_mode & 0o777)
            hint, foreign = "Close it: chmod 700 %s" % folder, True
        else:
            return
    error = kind("%s %s %s" % (name, folder, why), hint=hint, public="%s %s" % (name, why))
    error.foreign = foreign
    raise error


try:
    # OpenSSL's, behind hashlib, costs each session milliseconds to load
    from _sha256 import sha256  # type: ignore[import-not-found]
except ImportError:
    from hashlib import sha256

KINDS = ("xml", "bin")


def default_folder() -> str:
    """Return the default cache folder: in the data directory of this instance, its backends' working directory."""
    return os.path.join(os.getcwd(), "dbinfer_cache")


def open_cache(folder: str) -> str:
    """Make the cache folder (mode 0700) where needed and check that it is private to the server's user.

    Raises:
        ModelError: it cannot be made, belongs to somebody else or is open to others.
    """
    require_own(folder, "the cache folder", "--cache-dir", ModelError)
    return folder


def file_state(path: str) -> List[int]:
    """Return inode, size and times (nanoseconds) of a file: other values mean that something has touched it."""
    s = os.stat(path)
    return [s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns]  # mtime can be set, ctime cannot


def entry_name(digests: str) -> str:
    """Return the name of a model's folder in the cache, of the digests of model.xml and model.bin joined."""
    name: str = sha256(digests.encode()).hexdigest()
    return name[:32]


def files_gone(model: str) -> ModelError:
    """Return the error for files that somebody has since removed from the cache."""
    return ModelError(
        "the files of %s are no longer in the host cache" % model,
        hint="Run the statement again: it puts them there.",
    )


class Entry:
    """One model's folder in the cache.

    Args:
        cache: the cache folder.
        xml_digest, bin_digest: sha256 of the two files, in hex.
    """

    def __init__(self, cache: str, xml_digest: str, bin_digest: str) -> None:
        self.digests = {"xml": xml_digest, "bin": bin_digest}
        self.folder = os.path.join(cache, entry_name(xml_digest + bin_digest))

    def path(self, kind: str) -> str:
        """Return the path of model.xml or model.bin."""
        return os.path.join(self.folder, "model." + kind)

    def lock_path(self) -> str:
        """Return the path of the file that is locked by who puts the files there, and by who tries the model."""
        return os.path.join(self.folder, "trial.lock")

    def _stamp_path(self) -> str:
        return os.path.join(self.folder, "stamp.json")

    def _stamp(self) -> Dict[str, Any]:
        try:
            with open(self._stamp_path()) as stamp:
                values = fastjson.loads(stamp.read())
        except (OSError, ValueError):  # no stamp, or a spoilt one: the files are hashed
            return {}
        return values if isinstance(values, dict) else {}

    def write_stamp(self) -> None:
        """Note the state of the files, whose digests the caller has just found right; on a full disk, do without."""
        try:
            values = {kind: file_state(self.path(kind)) for kind in KINDS}
            # no reader sees half a stamp
            write_whole(self._stamp_path(), fastjson.dumps(values))
        except OSError:
            pass

    def gone(self) -> bool:
        """Return whether somebody has removed a file from the cache, see files_gone."""
        return not all(os.path.exists(self.path(kind)) for kind in KINDS)

    def good(self) -> bool:
        """Return whether both files are there and hold what their digests say."""
        stamp = self._stamp()
        try:
            if all(stamp.get(kind) == file_state(self.path(kind)) for kind in KINDS):
                return True
            right = all(self._right(kind) for kind in KINDS)
        except OSError:
            return False
        if right:
            self.write_stamp()
        return right

    def _right(self, kind: str) -> bool:
        # only here: most sessions find a stamp
        import hashlib

        digest = hashlib.sha256()
        with open(self.path(kind), "rb") as source:
            for block in iter(lambda: source.read(1 << 20), b""):
                digest.update(block)
        return digest.hexdigest() == self.digests[kind]


UNFINISHED = ".tmp"  # ends the names of files that are still being written; they begin with the writer's pid


def temporary_file(folder: str) -> Tuple[int, str]:
    """Make a file that is to be renamed when it is complete; return its descriptor and path."""
    # imported here, as below: most sessions find all files written
    import tempfile

    return tempfile.mkstemp(dir=folder, prefix="%d-" % os.getpid(), suffix=UNFINISHED)


def temporary_folder(folder: str) -> str:
    """Make a folder that is to be renamed when it is complete."""
    import tempfile

    return tempfile.mkdtemp(dir=folder, prefix="%d-" % os.getpid(), suffix=UNFINISHED)


def write_whole(path: str, text: str) -> None:
    """Write a file that no reader sees half; OSError where that cannot be."""
    fd, temporary = temporary_file(os.path.dirname(path))
    try:
        with os.fdopen(fd, "w") as target:
            target.write(text)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


TRIAL_NUMBERS = ("milliseconds", "batch_milliseconds", "compile_milliseconds")
TRIAL_KEYS = {"asked", "error", "setting", *TRIAL_NUMBERS}


def trial_path(folder: str) -> str:
    """Return the path of the outcome of a model's trial; `folder` is the model's in the cache."""
    return os.path.join(folder, "trial.json")


def read_trial(folder: str) -> Tuple[Dict[str, Any], float]:
    """Return the outcome of a model's last trial and its age in seconds; nothing where there is none."""
    try:
        with open(trial_path(folder)) as file:
            values = fastjson.loads(file.read())
            # of the open file: another may have its name by now
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        return {}, 0.0
    return (values, age) if _sound_trial(values) else ({}, 0.0)


def _sound_trial(values: Any) -> bool:
    """Return whether an outcome has the types that the runtime writes; who serves the model can write the file, too."""
    # an outcome of an older runtime lacks some keys
    if not isinstance(values, dict) or not set(values) >= TRIAL_KEYS:
        return False
    by_threads = values.get("by_threads") or {}
    return (
        all(isinstance(values.get(name, ""), str) for name in ("error", "device", "refused"))
        and isinstance(values["setting"], str)
        and all(values[name] is None or is_time(values[name]) for name in TRIAL_NUMBERS)
        and isinstance(by_threads, dict)
        and ("by_threads" in values) <= ("busy" in values)
        and all(number.isdecimal() and is_time(taken) for number, taken in by_threads.items())
    )


def is_time(value: Any) -> bool:
    """Return whether a value is a number that a trial can have measured."""
    # false also of what is no number
    return isinstance(value, (int, float)) and 0 <= value < 1e12


def milliseconds_of(folder: str) -> Optional[float]:
    """Return how long an image took with one thread when the model was last tried here; None where nobody knows."""
    found: Optional[float] = read_trial(folder)[0].get("milliseconds")
    return found


# An inference that is shorter than the way to the engine and back runs in the backend
LEAST_MILLISECONDS = 1.0


def is_fast(milliseconds: Optional[float]) -> bool:
    """Return whether the model is known to run in the backend faster than the way to the engine and back takes."""
    return milliseconds is not None and milliseconds < LEAST_MILLISECONDS


MARK = "used-by-"


def own_mark() -> str:
    """Return the name of this database's mark: the number of its cluster (each segment has its own) and its oid."""
    return MARK + "%d-%d" % process.database()


def mark_as_used_here(folder: str) -> None:
    """Note that this database uses the model; nothing where its folder is not there, or in no server's process."""
    if not any(process.database()):  # nobody would ever remove the mark of no database
        return
    try:
        os.close(os.open(os.path.join(folder, own_mark()), os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        pass


def unmark(folder: str) -> None:
    """Take this database's mark away."""
    try:
        os.unlink(os.path.join(folder, own_mark()))
    except OSError:
        pass


def marks_of(folder: str) -> List[str]:
    """Return the marks of all databases, dropped ones included."""
    try:
        return [name for name in os.listdir(folder) if name.startswith(MARK)]
    except OSError:
        return []


def marks_of_others(folder: str, databases: str) -> List[str]:
    """Return the marks of other databases.

    Args:
        databases: oids of those that this cluster has, with commas: marks of its dropped databases do not count.
    """
    mine = own_mark()
    cluster = mine.rpartition("-")[0] + "-"
    there = {cluster + oid for oid in databases.split(",")} - {mine}
    return [name for name in marks_of(folder) if name in there or not name.startswith(cluster)]


# How often a process marks a model that it uses; far below housekeeping.BUSY_SECONDS
MARK_SECONDS = 60


def mark_used(folder: str) -> None:
    """Note that a backend of this database is about to use this model; nothing where its folder is not there."""
    mark_as_used_here(folder)
    keep_in_cache(folder)


def keep_in_cache(folder: str, ahead: float = 0.0) -> None:
    """Note that a model is in use, or will be for so many seconds."""
    now = time.time() + ahead
    try:
        os.utime(folder, (now, now))
    except OSError:
        pass


class Keeper:
    """Keeps a model in the cache while a process waits; call it many times a second."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._marked = -MARK_SECONDS * 1.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._marked >= MARK_SECONDS:
            self._marked = now
            keep_in_cache(self._folder)
