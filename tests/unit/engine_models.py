"""A model in a host cache and an engine for it, without any server: what the engine's tests begin with."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from dbinfer.install.content import Content
from dbinfer.models.describe import describe
from dbinfer.models.ir import read_model
from dbinfer.models.prepare import prepare
from dbinfer_udf.engine.client import Engine, status
from dbinfer_udf.host import libraries
from dbinfer_udf.host.cache import Entry
from dbinfer_udf.image.file import DEFAULT_LIMITS
from dbinfer_udf.model.model import Model

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))


@cache
def content() -> Content:
    return Content()


def ticket(path: Path, cache_dir: Path, **settings: str) -> tuple[dict[str, Any], Entry]:
    """Return the ticket's spec of an IR and its entry in a cache, written here; the engine is to score all its rows."""
    read = read_model(path)
    known = describe(read)
    files = prepare(read, known)
    entry = Entry(str(cache_dir), files.xml_digest, files.bin_digest)
    os.makedirs(entry.folder, mode=0o700, exist_ok=True)
    Path(entry.path("xml")).write_bytes(files.xml)
    Path(entry.path("bin")).write_bytes(files.bin)
    spec = {
        "model": path.stem,
        "version": 1,
        "xml_digest": files.xml_digest,
        "bin_digest": files.bin_digest,
        "manifest": known.manifest.to_dict(),
        "settings": {"isolation": "always", **settings},
    }
    return spec, entry


def engine(folder: Path, **settings: str) -> Engine:
    """Return the way to an engine whose sockets lie in this folder."""
    return Engine(
        {"engine_dir": str(folder), **settings}, content().runtime_digest, lambda: content().modules
    )


def in_process(spec: dict[str, Any], entry: Entry, threads: int = 1) -> Model:
    """Return the model as a backend has it."""
    return Model(libraries.import_libraries("", DEFAULT_LIMITS.max_pixels)["openvino"], entry, spec, threads)


def processes(engine: Engine) -> dict[str, list[int]]:
    """Return the pids of an engine's processes by what ps calls them: engine, zygote, loader, worker."""
    top = [one["pid"] for one in status(engine.settings) if one["digest"] == engine.digest[:12]]
    found: dict[str, list[int]] = {"engine": top, "zygote": [], "loader": [], "worker": []}
    todo = list(top)
    while todo:
        children = children_of(todo.pop())
        todo += children
        for child in children:
            title = title_of(child)
            found["worker" if "worker" in title else "loader" if "loader" in title else "zygote"].append(
                child
            )
    return found


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def title_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0")
    except OSError:
        return ""


def alive(pids: Iterable[int]) -> list[int]:
    """Return those that still run, titles of ours only: a pid may be another's by now."""
    return [pid for pid in pids if title_of(pid).startswith("dbinfer-")]


def wait_until(true: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Wait for something to come true."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"{what} has not come true within {seconds:g} s"
        time.sleep(0.02)
