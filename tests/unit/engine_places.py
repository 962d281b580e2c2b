"""Folders for the engines of a test, and models that are opened there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import engine_models
import tiny_models
from engine_models import wait_until

from dbinfer_udf.engine import client

GOOD = tiny_models.file(tiny_models.picture(1, 2, 3))


@contextmanager
def engine_folder(parent: Path) -> Iterator[Path]:
    """Make a folder for sockets; its engines have ended at the end."""
    made = parent / "engine"
    made.mkdir(mode=0o700)
    try:
        yield made
    finally:
        settings = {"engine_dir": str(made)}
        left = [one["pid"] for one in client.status(settings)]
        client.stop(settings)
        wait_until(lambda: not engine_models.alive(left), "the end of the engines")


def passing(folder: Path, number: float, **settings: str) -> Any:
    """Return a fast model that serves a session's first rows there, while `auto` has backends run it."""
    return ready(folder, number, isolation="auto", **settings)()


def opened(folder: Path, number: float = 1, digest: str = "", **settings: str) -> Any:
    """Return a model that answers this number, opened in the engine of a folder."""
    return ready(folder, number, digest, **settings)()


def ready(folder: Path, number: float = 1, digest: str = "", **settings: str) -> Callable[[], Any]:
    """Return what opens a model; the files are written before."""
    engine = engine_models.engine(folder, **settings)
    engine.digest = digest or engine.digest
    path = tiny_models.constant(folder.parent, number, f"constant{number:g}")
    spec, entry = engine_models.ticket(path, folder.parent / "cache", **settings)
    return lambda: engine.open(spec, entry.folder, 1)
