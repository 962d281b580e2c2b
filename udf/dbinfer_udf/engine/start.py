"""Starts an engine from a backend: a fresh interpreter that inherits nothing, as the process of a trial."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from typing import Any, Dict

from ..errors import PUBLIC, EngineError
from ..host import own_python
from ..host.protocol import STEP, look
from ..model.tried import python_of

SECONDS = 30.0  # until it listens; Python starts in 20 ms
# Room in the command line for the title that ps shows
NAME = "dbinfer-engine" + " " * 48

RUN = """
import importlib
import json as _json
_call = _json.loads(%r)
sys.path[:] = _call["paths"]
sys.meta_path.insert(0, Finder(PREFIX + _call["digest"][:12], _call["modules"]))
importlib.import_module(PREFIX + _call["digest"][:12] + ".engine.main").run(_call)
"""


def call_of(settings: Dict[str, str], digest: str, modules: Dict[str, str], server: int) -> Dict[str, Any]:
    """Return what an engine must know to start.

    Args:
        server: pid of the process that it works for; 0: it is a service and works for all.
    """
    return {
        "settings": settings,
        "digest": digest,
        "modules": modules,
        "server": server,
        "paths": [path for path in sys.path if path],  # "" is the working directory
    }


def start(call: Dict[str, Any]) -> None:
    """Start an engine and return when one listens: this or another that was started at the same time.

    Raises:
        EngineError: it cannot be started.
        CancelledError: the statement was cancelled meanwhile; the engine starts nevertheless.
    """
    python = python_of(call["settings"])
    pipes: Dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        process = own_python.started(python, program(call), NAME, start_new_session=True, **pipes)
    except OSError as err:
        message = "the engine's Python, %s, cannot be started: %s" % (python, err.strerror)
        raise EngineError(message, public=PUBLIC) from err
    try:
        _wait(process)
    finally:
        process.stdout.close()
        # the engine is its child; a backend must not collect zombies
        process.kill()
        process.wait()


def program(call: Dict[str, Any]) -> bytes:
    """Return what the interpreter runs: the bootstrap's Finder over the sources, and the engine's own start."""
    bootstrap: str = call["modules"]["bootstrap"]
    return (bootstrap + RUN % json.dumps(call)).encode()


def _wait(process: Any) -> None:
    """Wait for the word of the process; what it says instead is the error."""
    said, out, until = b"", process.stdout.fileno(), time.monotonic() + SECONDS
    while not said.endswith(b"ready\n"):
        if select.select([out], [], [], STEP)[0]:
            block = os.read(out, 65536)
            said += block
            if not block:
                lines = said.decode(errors="replace").strip().splitlines() or ["it says nothing"]
                raise EngineError("the engine cannot be started: %s" % lines[-1], public=PUBLIC)
        look(until)
