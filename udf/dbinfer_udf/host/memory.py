"""Refuses a model that the host has no memory for, and lets one process at a time load; who waits hears a cancel."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Dict, Iterator, Optional

from ..errors import ModelError
from . import interrupts, signals
from .limits import free_bytes
from .marks import Waiting

WAIT = 0.05  # seconds


@contextlib.contextmanager
def turn(path: str, folder: str, doing: str) -> Iterator[None]:
    """Wait until no other process is between here and the end of the block.

    Args:
        path: a folder, or a file that is made here, on which all of them agree.
        folder: the model's in the cache.
        doing: what happens in the block, for the error of a statement that is cancelled before.
    """
    try:
        lock = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError:  # the disk is full, for example: then each goes on for itself
        yield
        return
    try:
        with signals.signals_open():
            waits = Waiting(folder)
            while not _locked(lock):
                waits()
                if interrupts.cancelled():
                    raise cancelled(doing)
                time.sleep(WAIT)
        yield
    finally:
        os.close(lock)


def _locked(lock: int) -> bool:
    try:
        # asked in steps, because nothing could interrupt a flock that waits
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def cancelled(doing: str) -> ModelError:
    """Return the error of a statement that was cancelled meanwhile."""
    return ModelError("the statement was cancelled while the model was %s" % doing, sqlstate="57014")


DEFAULT_FREE_MB = 64
# Measured (docs/performance.md): networks of 0.4, 102 and 244 MB take 32, 149 and 279 MB, libraries included
LIBRARIES_BYTES = 48 << 20
FILES_FACTOR = 1.4
# Processes that may load at the same moment without looking at each other: more find room one after the other
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
    with turn(os.path.dirname(folder), folder, "loaded"):
        require_memory(folder, settings, root)
        yield


def require_memory(folder: str, settings: Dict[str, str], root: str = "/") -> None:
    """Return where there is room for the model whose files lie in `folder`, at this moment; else raise ModelError."""
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


def no_room(message: str) -> ModelError:
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
