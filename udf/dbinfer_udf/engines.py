"""The engines of this host, as administrators see, start and stop them."""

from __future__ import annotations

import socket
from typing import Any, Callable, Dict, List

from .engine.client import Engine, status, stop
from .errors import UdfError
from .isolation import started_with

COUNTS = ("bytes", "requests", "errors", "restarts", "queue")


def act(
    settings: Dict[str, str], digest: str, modules: Callable[[], Dict[str, str]], action: str
) -> List[Dict[str, Any]]:
    """Return the facts of this host's engines; `problem` says what is wrong.

    Args:
        digest: of this session's runtime.
        modules: returns its sources.
        action: `look`; `start`: an engine of this runtime first, where none runs; `stop`: tell all to finish and go;
            `replace`: tell those of other runtimes.
    """
    try:
        if action == "start":
            Engine(started_with(settings), digest, modules).attach()
        elif action != "look":
            stop(settings, keep=digest if action == "replace" else None)
        return [_whole(found) for found in status(settings)]
    except UdfError as err:
        problem = err.message + (" " + err.hint if err.hint else "")
        facts = {"host": socket.gethostname(), "digest": digest[:12], "models": [], "problem": problem}
        return [dict(facts, denied=err.foreign)]


def _whole(found: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts of one engine with the sums over its models; `bytes` are those of all its processes."""
    sums = {name: sum(model.get(name) or 0 for model in found["models"]) for name in COUNTS}
    sums["bytes"] += found.get("own_bytes", 0)
    return {"host": socket.gethostname(), **sums, **found, "problem": found.get("problem") or None}
