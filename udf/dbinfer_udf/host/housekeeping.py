"""Keeps the host cache within its limit: the models that nobody has used for longest go first.

Several databases, and with --cache-dir several segments, may share one cache, so each marks the models that it uses.
The limit takes models of all; that costs the next user a fetch and nothing else: every admission looks for the files.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import time
from typing import Any, Collection, Dict, List, NamedTuple, Optional, Tuple

from . import cache, marks, process
from .unfinished import SUFFIX, sweep

DEFAULT_LIMIT_MB = 10240
# Between a backend's admission to a model and the end of its compilation nobody removes the files
BUSY_SECONDS = 600
# Nothing can say so while OpenVINO compiles, so it is said ahead
COMPILE_SECONDS = 3600
UNUSED_SECONDS = 3600
NAME = re.compile("[0-9a-f]{32}")


class Found(NamedTuple):
    """A model's folder in the cache: when it was used (nanoseconds, as its mtime) and its size in bytes."""

    path: str
    used: int
    size: int


def find(folder: str) -> List[Found]:
    """Return the models in the cache, the one that was not used for longest first."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if NAME.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):  # another backend has removed it meanwhile
                    used = entry.stat().st_mtime_ns
                    found.append(Found(entry.path, used, size(entry.path)))
    return sorted(found, key=lambda one: one.used)


def make_room(new: cache.Entry, settings: Dict[str, str]) -> None:
    """Remove the models that were not used for longest until the cache is within `cache_limit_mb` (default 10240).

    Args:
        new: the model just written, which stays.
    """
    limit = int(settings.get("cache_limit_mb", DEFAULT_LIMIT_MB)) << 20
    found = find(os.path.dirname(new.folder))
    total = sum(one.size for one in found)
    for one in found:
        if total <= limit:
            return
        if one.path != new.folder and _idle(one, BUSY_SECONDS) and _remove(one):
            total -= one.size


def prune(folder: str, named: Collection[str], databases: str = "") -> List[Found]:
    """Remove the models that are not among `named` (folder names) and idle for an hour; return those that went.

    Args:
        databases: oids of this cluster's, with commas; a model that another of them has used only loses our mark.
    """
    sweep(folder)
    unnamed = [one for one in find(folder) if os.path.basename(one.path) not in named]
    return [one for one in unnamed if _idle(one, UNUSED_SECONDS) and _release(one, databases)]


def leave(folder: str, databases: str) -> List[Found]:
    """Remove the models that only this database or dropped ones have used; return those that went."""
    if not os.path.isdir(folder):
        return []
    cache.open_cache(folder)
    sweep(folder)
    # without any mark an older release of dbinfer has written it, for we know not whom
    removed = [one for one in find(folder) if marks.found(one.path) and _release(one, databases)]
    if folder == cache.default_folder():  # any other one was made by an administrator
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # only where it is empty
    return removed


def _release(one: Found, databases: str) -> bool:
    """Remove a model; where another database has used it, only this one's mark."""
    if marks.others(one.path, databases):
        marks.unmark(one.path)
        return False
    return _remove(one)


def _idle(one: Found, seconds: int) -> bool:
    return time.time() - one.used / 1e9 > seconds


def _remove(one: Found) -> bool:
    """Remove a model's folder unless somebody has begun to use it; renamed first, so that nobody sees half of it."""
    parent, name = os.path.split(one.path)
    aside = os.path.join(parent, "%d-%s%s" % (os.getpid(), name, SUFFIX))
    shutil.rmtree(aside, ignore_errors=True)
    try:
        if os.stat(one.path).st_mtime_ns != one.used:
            return False
        os.rename(one.path, aside)
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True


def usage(folder: str) -> Tuple[int, Optional[int]]:
    """Return the bytes used by the cache folder and those free on its disk (None where it is not there)."""
    if not os.path.isdir(folder):
        return 0, None
    free = os.statvfs(folder)
    return size(folder), free.f_bavail * free.f_frsize


def size(folder: str) -> int:
    """Return the bytes of the files in a folder and below; what another backend removes meanwhile counts nothing."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total


def collect(settings: Dict[str, str], digests: Any) -> Dict[str, Any]:
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
        else prune(folder, {cache.entry_name(both) for both in digests}, settings["databases"])
    )
    used, free = usage(folder)
    return {
        "content": process.content_id(),
        "host": socket.gethostname(),
        "folder": folder,
        "models": len(find(folder)),
        "used_bytes": used,
        "free_bytes": free,
        "removed": len(removed),
        "removed_bytes": sum(one.size for one in removed),
    }
