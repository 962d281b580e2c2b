"""One process at a time: who waits for its turn hears a cancel, and keeps the model in the host cache meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import Iterator

from . import interrupts, signals
from .errors import ModelError
from .use import Waiting

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
