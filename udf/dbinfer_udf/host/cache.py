"""The host cache: model files on disk beside the database, in folders that are this user's alone, checked against
the registry's digests.

Each model has a folder named after its digests: model.xml, model.bin, compiled blobs and stamp.json. The stamp says
which inode, size and times the files had when their sha256 was last computed; a file that anything has touched since
is hashed again, and a damaged one is fetched again.
"""

from __future__ import annotations

import os
import stat

from .. import fastjson
from ..errors import ModelError, UdfError

TYPE_CHECKING = False  # of typing itself: see fastjson

if TYPE_CHECKING:
    from typing import Any, Dict, List, Type


def require_own(folder: str, name: str, option: str, kind: Type[UdfError]) -> None:
    """Make a folder (mode 0700) where needed, and check that it is private to this user.

    Args:
        name: what it is, for an error.
        option: of `dbinfer install` that chooses another.
        kind: of the error.

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
    return [s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns]  # anybody may set mtime, nobody ctime


def entry_name(digests: str) -> str:
    """Return the name of a model's folder in the cache, of the digests of model.xml and model.bin joined."""
    name: str = sha256(digests.encode()).hexdigest()
    return name[:32]


def gone(model: str) -> ModelError:
    """Return the error for files that somebody has removed from the cache since they were there."""
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
        from .unfinished import write

        try:
            values = {kind: file_state(self.path(kind)) for kind in KINDS}
            # no reader sees half a stamp
            write(self._stamp_path(), fastjson.dumps(values))
        except OSError:
            pass

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
