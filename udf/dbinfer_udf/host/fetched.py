"""Writes the files of a model into the host cache: under a temporary name, renamed once their digests are right."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from typing import Any, BinaryIO, Dict, Tuple

from ..errors import ModelError
from .cache import KINDS, Entry, gone
from .unfinished import sweep, temporary_file


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
            raise _failed(entry.folder, err) from err

    def write(self, kind: str, data: bytes) -> None:
        """Append one part (kind `xml` or `bin`)."""
        target, _, digest = self.open[kind]
        try:
            target.write(data)
        except OSError as err:
            self.abandon()
            raise _failed(self.entry.folder, err) from err
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
            raise _failed(self.entry.folder, err) from err
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


def _failed(folder: str, err: OSError) -> ModelError:
    if isinstance(err, FileNotFoundError) and not os.path.isdir(folder):
        # somebody has emptied the cache meanwhile: nothing is wrong with the disk
        return gone("the model")
    return ModelError(
        "cannot write to the cache folder %s: %s" % (folder, err.strerror),
        hint="Make room there, or choose another folder: dbinfer install --cache-dir FOLDER",
        sqlstate="53100" if err.errno == 28 else "58030",  # ENOSPC: disk full; else an I/O error
        public="cannot write model files: %s" % err.strerror,
    )
