"""Says that a model in the host cache is in use, which keeps it there; see housekeeping."""

from __future__ import annotations

import os
import time

from . import marks

# How often who uses a model says so; far below housekeeping.BUSY_SECONDS
MARK_SECONDS = 60


def mark_used(folder: str) -> None:
    """Note that a backend of this database is about to use this model; nothing where its folder is not there."""
    marks.mark(folder)
    keep(folder)


def keep(folder: str, ahead: float = 0.0) -> None:
    """Note that a model is in use, or will be for so many seconds."""
    now = time.time() + ahead
    try:
        os.utime(folder, (now, now))
    except OSError:
        pass


class Waiting:
    """Keeps a model in the cache while a process waits: to be called many times a second."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._marked = -MARK_SECONDS * 1.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._marked >= MARK_SECONDS:
            self._marked = now
            keep(self._folder)
