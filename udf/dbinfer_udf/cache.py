"""The host cache: model files on disk beside the database, checked against the digests of the registry.

Each model has a folder named after its digests: model.xml, model.bin, compiled blobs and stamp.json. The stamp says
which inode, size and times the files had when their sha256 was last computed; a file that anything has touched since
is hashed again, and a damaged one is fetched again. Files are written under a temporary name and renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from typing import Any, BinaryIO, Dict, List, Tuple

from .errors import ModelError
from .own_folder import require_own
from .unfinished import sweep, temporary_file

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


def sha256_file(path: str) -> str:
    """Return the sha256 of a file, in hex."""
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def entry_name(digests: str) -> str:
    """Return the name of a model's folder in the cache, of the digests of model.xml and model.bin joined."""
    return hashlib.sha256(digests.encode()).hexdigest()[:32]


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
                values = json.load(stamp)
        except (OSError, ValueError):  # no stamp, or a spoilt one: the files are hashed
            return {}
        return values if isinstance(values, dict) else {}

    def write_stamp(self) -> None:
        """Note the state of the files, whose digests the caller has just found right; on a full disk, do without."""
        with contextlib.suppress(OSError):
            values = {kind: file_state(self.path(kind)) for kind in KINDS}
            fd, temporary = temporary_file(self.folder)
            try:
                with os.fdopen(fd, "w") as stamp:
                    json.dump(values, stamp)
                os.rename(temporary, self._stamp_path())  # no reader sees half a stamp
            except OSError:
                os.unlink(temporary)

    def good(self) -> bool:
        """Return whether both files are there and hold what their digests say."""
        stamp = self._stamp()
        try:
            if all(stamp.get(kind) == file_state(self.path(kind)) for kind in KINDS):
                return True
            right = all(sha256_file(self.path(kind)) == self.digests[kind] for kind in KINDS)
        except OSError:
            return False
        if right:
            self.write_stamp()
        return right


class Writer:
    """Takes the parts of a model's two files and puts the files into the cache once their digests are right."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.open: Dict[str, Tuple[BinaryIO, str, Any]] = {}
        try:
            os.makedirs(entry.folder, mode=0o700, exist_ok=True)
            sweep(os.path.dirname(entry.folder))  # here, because fetching is rare and needs the room
            for kind in KINDS:
                fd, path = temporary_file(entry.folder)
                self.open[kind] = (os.fdopen(fd, "wb"), path, hashlib.sha256())
        except OSError as err:
            self.abandon()
            raise _full(entry.folder, err) from err

    def write(self, kind: str, data: bytes) -> None:
        """Append one part (kind `xml` or `bin`)."""
        target, _, digest = self.open[kind]
        try:
            target.write(data)
        except OSError as err:
            self.abandon()
            raise _full(self.entry.folder, err) from err
        digest.update(data)

    def finish(self) -> None:
        """Check the digests and rename the files into place; ModelError where the registry's parts are damaged."""
        try:
            for kind in KINDS:
                target, _, digest = self.open[kind]
                target.flush()
                os.fsync(target.fileno())  # after a power failure the name may be there and the content not
                target.close()
                if digest.hexdigest() != self.entry.digests[kind]:
                    raise ModelError(
                        "the %s file of the model in the registry is damaged: its sha256 is %s..., expected %s..."
                        % (kind, digest.hexdigest()[:12], self.entry.digests[kind][:12]),
                        hint="Deploy the model again.",
                        sqlstate="XX001",
                    )
            shutil.rmtree(os.path.join(self.entry.folder, "blobs"), ignore_errors=True)  # made of old files
            for kind in KINDS:
                os.rename(self.open[kind][1], self.entry.path(kind))
            self.entry.write_stamp()  # last: without it the next reader hashes what lies there
        except OSError as err:
            raise _full(self.entry.folder, err) from err
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Remove what is unfinished."""
        for target, path, _ in self.open.values():
            with contextlib.suppress(OSError):  # what is still in memory does not fit on the disk either
                target.close()
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.open = {}


def _full(folder: str, err: OSError) -> ModelError:
    return ModelError(
        "cannot write to the cache folder %s: %s" % (folder, err.strerror),
        hint="Make room there, or choose another folder: dbinfer install --cache-dir FOLDER",
        sqlstate="53100" if err.errno == 28 else "58030",  # ENOSPC: disk full; else an I/O error
        public="cannot write model files: %s" % err.strerror,
    )
