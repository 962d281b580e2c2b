"""Marks in a model's folder of the host cache: the databases that have used it, because one cache may serve several."""

from __future__ import annotations

import os

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
