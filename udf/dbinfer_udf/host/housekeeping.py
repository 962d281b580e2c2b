"""Fills the host cache and keeps it within its limit: files get their names once their digests are right, and the
models that nobody has used for longest go first.

Several databases, and with --cache-dir several segments, may share one cache, so each marks the models that it uses.
The limit removes models of any of them, which costs the next user a fetch and nothing else: every admission looks for
the files.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import shutil
import socket
import time
from typing import Any, BinaryIO, Collection, Dict, List, NamedTuple, Optional, Tuple

from ..errors import ModelError
from . import cache, process
from .cache import KINDS, UNFINISHED, Entry, files_gone, temporary_file
from .memory import one_at_a_time

DEFAULT_LIMIT_MB = 10240
# Nobody removes the files between a backend's admission to a model and the end of its compilation
BUSY_SECONDS = 600
# While OpenVINO compiles nothing can mark the folder as used, so it is marked ahead of time
COMPILE_SECONDS = 3600
UNUSED_SECONDS = 3600
AHEAD_SECONDS = 86400
NAME = re.compile("[0-9a-f]{32}")
# How often a folder is made again that others remove before anything is in it
MOST_REMOVALS = 100


class Writer:
    """Takes the parts of a model's two files and puts the files into the cache once their digests are right."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.open: Dict[str, Tuple[BinaryIO, str, Any]] = {}
        try:
            # here, because fetching is rare and needs the room
            remove_unfinished(os.path.dirname(entry.folder))
            for kind in KINDS:
                fd, path = self._new_file()
                self.open[kind] = (os.fdopen(fd, "wb"), path, hashlib.sha256())
        except OSError as err:
            self.abandon()
            raise _cannot_write(entry.folder, err) from err

    def _new_file(self) -> Tuple[int, str]:
        """Make a file in the folder, which another writer that gives up removes while it is empty."""
        for _ in range(MOST_REMOVALS):
            os.makedirs(self.entry.folder, mode=0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                return temporary_file(self.entry.folder)
        raise FileNotFoundError(errno.ENOENT, "others remove it again and again")

    def write(self, kind: str, data: bytes) -> None:
        """Append one part (kind `xml` or `bin`)."""
        target, _, digest = self.open[kind]
        try:
            target.write(data)
        except OSError as err:
            self.abandon()
            raise _cannot_write(self.entry.folder, err) from err
        digest.update(data)

    def finish(self) -> None:
        """Check the digests and put the files there; ModelError where the registry's parts are damaged."""
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
            # another process may have been sooner, and try the model by now in one that may read these very files alone
            with one_at_a_time(self.entry.lock_path(), self.entry.folder, "fetched"):
                if not self.entry.good():
                    self._put_there()
        except OSError as err:
            raise _cannot_write(self.entry.folder, err) from err
        finally:
            self.abandon()

    def _put_there(self) -> None:
        shutil.rmtree(os.path.join(self.entry.folder, "blobs"), ignore_errors=True)  # made of old files
        for kind in KINDS:
            os.rename(self.open[kind][1], self.entry.path(kind))
        self.entry.write_stamp()  # last: without a stamp the next reader hashes the files

    def abandon(self) -> None:
        """Remove what is unfinished."""
        for target, path, _ in self.open.values():
            with contextlib.suppress(OSError):  # closing writes what is left, and the disk may be full
                target.close()
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.open = {}
        # without a file it has no mark, either, by which somebody would know that it may go
        with contextlib.suppress(OSError):
            os.rmdir(self.entry.folder)  # only where it is empty


def _cannot_write(folder: str, err: OSError) -> ModelError:
    if isinstance(err, FileNotFoundError) and not os.path.isdir(folder):
        # somebody has emptied the cache meanwhile; the disk is all right
        return files_gone("the model")
    full = err.errno in (errno.ENOSPC, errno.EDQUOT)
    return ModelError(
        "cannot write to the cache folder %s: %s" % (folder, err.strerror),
        hint="%s, or choose another folder: dbinfer install --cache-dir FOLDER"
        % ("Make room there" if full else "Let the server's user write there"),
        sqlstate="53100" if full else "58030",  # disk full; else an I/O error
        public="cannot write model files: %s" % err.strerror,
    )


def remove_unfinished(cache: str) -> None:
    """Remove files left half written by backends that were killed, or that ended after a cancelled statement."""
    removed = "[0-9]*-*" + UNFINISHED  # a model's folder that is being removed; nothing else has such a name
    for pattern in (
        removed,
        os.path.join("*", "*" + UNFINISHED),
        os.path.join("*", "blobs", "*" + UNFINISHED),
    ):
        for path in glob.glob(os.path.join(glob.escape(cache), pattern)):
            if not _owner_lives(os.path.basename(path)):
                # rmtree removes folders only, unlink files only
                shutil.rmtree(path, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _owner_lives(name: str) -> bool:
    owner = name.partition("-")[0]
    # another process may have the pid by now; then the file only stays longer
    return owner.isdigit() and os.path.exists("/proc/" + owner)


class CachedModel(NamedTuple):
    """A model's folder in the cache: when it was used (nanoseconds, as its mtime) and its size in bytes."""

    path: str
    used: int
    size: int


def cached_models(folder: str) -> List[CachedModel]:
    """Return the models in the cache, the least recently used one first."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):  # another backend has removed it meanwhile
                    used = entry.stat().st_mtime_ns
                    found.append(CachedModel(entry.path, used, folder_size(entry.path)))
    return sorted(found, key=lambda one: one.used)


def make_room(new: Entry, settings: Dict[str, str]) -> None:
    """Remove the least recently used models until the cache is within `cache_limit_mb` (default 10240).

    Args:
        new: the model just written, which stays.
    """
    limit = int(settings.get("cache_limit_mb", DEFAULT_LIMIT_MB)) << 20
    found = cached_models(os.path.dirname(new.folder))
    total = sum(one.size for one in found)
    for one in found:
        if total <= limit:
            return
        if one.path != new.folder and _is_idle(one, BUSY_SECONDS) and _remove_model(one):
            total -= one.size


def prune_cache(folder: str, named: Collection[str], databases: str = "") -> List[CachedModel]:
    """Remove the models that are not among `named` (folder names) and were idle for an hour; return those removed.

    Args:
        databases: oids of this cluster's databases, with commas; a model that another one has used loses only our mark.
    """
    remove_unfinished(folder)
    unnamed = [one for one in cached_models(folder) if os.path.basename(one.path) not in named]
    return [one for one in unnamed if _is_idle(one, UNUSED_SECONDS) and _release_model(one, databases)]


def leave_cache(folder: str, databases: str) -> List[CachedModel]:
    """Remove the models that only this database or dropped ones have used; return those removed."""
    if not os.path.isdir(folder):
        return []
    cache.open_cache(folder)
    remove_unfinished(folder)
    # a model without marks was written by an older release of dbinfer, and may be anybody's
    removed = [
        one for one in cached_models(folder) if cache.marks_of(one.path) and _release_model(one, databases)
    ]
    if folder == cache.default_folder():  # an administrator made any other
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # only where it is empty
    return removed


def _release_model(one: CachedModel, databases: str) -> bool:
    """Remove a model; where another database has used it, only this one's mark."""
    if cache.marks_of_others(one.path, databases):
        cache.unmark(one.path)
        return False
    return _remove_model(one)


def _is_idle(one: CachedModel, seconds: int) -> bool:
    # what is marked ahead of time is in use; what was used in days to come was so before the clock was set back
    return not -AHEAD_SECONDS <= time.time() - one.used / 1e9 <= seconds


def _remove_model(one: CachedModel) -> bool:
    """Remove a model's folder unless somebody uses it again; it is renamed first, so that nobody sees half of it."""
    parent, name = os.path.split(one.path)
    aside = os.path.join(parent, "%d-%s%s" % (os.getpid(), name, UNFINISHED))
    shutil.rmtree(aside, ignore_errors=True)
    try:
        if os.stat(one.path).st_mtime_ns != one.used:
            return False
        os.rename(one.path, aside)
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def disk_usage(folder: str) -> Tuple[int, Optional[int]]:
    """Return the bytes used by the cache folder and those free for us on its disk (None where it is not there)."""
    if not os.path.isdir(folder):
        return 0, None
    free = os.statvfs(folder)
    # what nobody may write is no room
    return folder_size(folder), free.f_bavail * free.f_frsize if os.access(folder, os.W_OK) else 0


def folder_size(folder: str) -> int:
    """Return the bytes of the files in a folder and below; files removed meanwhile do not count."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total


def cache_facts(settings: Dict[str, str], digests: Any) -> Dict[str, Any]:
    """Return the facts of this host's cache, for `dbinfer cache`.

    Args:
        settings: with `databases`, see `prune`.
        digests: of all versions in the registry, those of both files joined; then what else lies there is pruned first.
            None: nothing is removed.
    """
    folder = cache.open_cache(settings.get("cache_dir") or cache.default_folder())
    removed = (
        []
        if digests is None
        else prune_cache(folder, {cache.entry_name(both) for both in digests}, settings["databases"])
    )
    used, free = disk_usage(folder)
    return {
        "content": process.content_id(),
        "host": socket.gethostname(),
        "folder": folder,
        "models": len(cached_models(folder)),
        "used_bytes": used,
        "free_bytes": free,
        "removed": len(removed),
        "removed_bytes": sum(one.size for one in removed),
    }
