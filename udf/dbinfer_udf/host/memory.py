"""Refuses models for which the host has no memory, and lets one process at a time load; a cancel ends the wait."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Dict, Iterator, Optional

from ..errors import ModelError
from . import interrupts
from .cache import Keeper
from .libraries import signals_open
from .limits import free_bytes

WAIT = 0.05  # seconds


@contextlib.contextmanager
def one_at_a_time(path: str, folder: str, doing: str) -> Iterator[None]:
    """Run the block while no other process runs one under the same path.

    Args:
        path: of the lock: a folder, or a file, which is made here.
        folder: the model's in the cache.
        doing: what happens in the block, for the error of a statement that is cancelled while it waits.
    """
    try:
        lock = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError:  # a full disk, for example: then nobody waits
        yield
        return
    try:
        with signals_open():
            waits = Keeper(folder)
            while not _locked(lock):
                waits()
                if interrupts.cancelled():
                    raise cancelled_error(doing)
                time.sleep(WAIT)
        yield
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        # polled, because nothing could interrupt a waiting flock
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def cancelled_error(doing: str) -> ModelError:
    """Return the error of a statement that was cancelled meanwhile."""
    return ModelError("the statement was cancelled while the model was %s" % doing, sqlstate="57014")


DEFAULT_FREE_MB = 64
# Measured (docs/explanation/performance.md): networks of 0.4, 102 and 244 MB take 32, 149 and 279 MB with libraries
LIBRARIES_BYTES = 48 << 20
FILES_FACTOR = 1.4
# Where there is room for so many loads, processes load at the same moment; else one after the other
CROWD = 32


@contextlib.contextmanager
def memory_for(folder: str, settings: Dict[str, str], root: str = "/") -> Iterator[None]:
    """Load the model whose files lie in `folder` within this block; one process at a time where memory is short.

    Raises:
        ModelError: afterwards fewer than `min_free_mb` (setting, default 64) would be free.
    """
    room, needed = room_beside(settings, root), _needed(folder)
    if room is None or room >= CROWD * needed:
        yield
        return
    # of all models: a lock on the cache's folder itself needs no file
    with one_at_a_time(os.path.dirname(folder), folder, "loaded"):
        require_memory(folder, settings, root)
        yield


def require_memory(folder: str, settings: Dict[str, str], root: str = "/") -> None:
    """Raise ModelError unless there is room now for the model whose files lie in `folder`."""
    room, needed = room_beside(settings, root), _needed(folder)
    if room is not None and room < needed:
        free = (room >> 20) + _kept_mb(settings)
        raise ModelError(
            "the model needs about %d MB of memory, but only %d MB are free" % (needed >> 20, free),
            detail="At least %d MB must stay free, so that the kernel ends no process (min_free_mb)."
            % _kept_mb(settings),
            hint=_HINT,
            sqlstate="53200",
        )


def room_beside(settings: Dict[str, str], root: str = "/") -> Optional[int]:
    """Return how many bytes may still be taken so that `min_free_mb` stay free; None where that is not known."""
    free = free_bytes(root)
    return None if free is None else free - (_kept_mb(settings) << 20)


def no_room_error(message: str) -> ModelError:
    """Return the error of a model whose trial took all the memory that was free."""
    return ModelError(
        "the model was not run: %s, and no more is free" % message,
        hint=_HINT,
        sqlstate="53200",
    )


_HINT = "Use fewer sessions or parallel workers, or give the server more memory."


def _needed(folder: str) -> int:
    size = sum(os.path.getsize(os.path.join(folder, "model." + kind)) for kind in ("xml", "bin"))
    return LIBRARIES_BYTES + int(size * FILES_FACTOR)


def _kept_mb(settings: Dict[str, str]) -> int:
    return int(settings.get("min_free_mb", DEFAULT_FREE_MB))
