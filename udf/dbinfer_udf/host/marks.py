"""Marks in a model's folder of the host cache: which databases have used it, and that it is in use now, which
keeps it there.
"""

from __future__ import annotations

import os
import time

from . import process

TYPE_CHECKING = False  # of typing itself: see fastjson

if TYPE_CHECKING:
    from typing import List


PREFIX = "used-by-"


def own() -> str:
    """Return the name of this database's mark: the number of its cluster (each segment has its own) and its oid."""
    return PREFIX + "%d-%d" % process.database()


def mark(folder: str) -> None:
    """Note that this database uses the model; nothing where its folder is not there, or in no server's process."""
    if not any(process.database()):  # a mark of no database would never go
        return
    try:
        os.close(os.open(os.path.join(folder, own()), os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        pass


def unmark(folder: str) -> None:
    """Take this database's mark away."""
    try:
        os.unlink(os.path.join(folder, own()))
    except OSError:
        pass


def found(folder: str) -> List[str]:
    """Return the marks of all databases, dropped ones included."""
    try:
        return [name for name in os.listdir(folder) if name.startswith(PREFIX)]
    except OSError:
        return []


def others(folder: str, databases: str) -> List[str]:
    """Return the marks of other databases.

    Args:
        databases: oids of those that this cluster has, with commas: marks of its dropped databases do not count.
    """
    mine = own()
    cluster = mine.rpartition("-")[0] + "-"
    there = {cluster + oid for oid in databases.split(",")} - {mine}
    return [name for name in found(folder) if name in there or not name.startswith(cluster)]


# How often who uses a model says so; far below housekeeping.BUSY_SECONDS
MARK_SECONDS = 60


def mark_used(folder: str) -> None:
    """Note that a backend of this database is about to use this model; nothing where its folder is not there."""
    mark(folder)
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
