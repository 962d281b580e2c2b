"""What administrators ask a session for: the facts of its host, cache and engine, and to leave the host."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from typing import Any, Callable, Dict, List, Optional

from .. import fastjson
from ..engine.client import Engine, stop
from ..engine.client import status as engine_status
from ..engine.models import ALWAYS, started_with
from ..errors import UdfError
from ..host import cache as caches
from ..host import housekeeping, libraries, limits, process
from ..host.limits import most_threads
from ..host.protocol import harmless_text
from ..image.file import image_limits
from ..model import device
from . import handover
from .ticket import raise_in_database

MOST_REASONS = 10


def backend_facts(session: Any, settings: Dict[str, str]) -> Dict[str, Any]:
    """Return versions, venv, threads, cache, loaded models and memory (bytes).

    `problem` says what is wrong, `hint` what to do about it.
    """
    row: Dict[str, Any] = {
        "content": process.content_id(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "python": "%d.%d.%d" % sys.version_info[:3],
        "venv": settings.get("venv", ""),
        "cores": limits.cores(),
        # of those models that it holds; else what one may take here
        "threads": max((m.threads for m in session.models.values()), default=most_threads(settings)),
        "precisions": process.precisions(),
        "runtime_digest": session.digest,
        "compiled": session.compiled,
        "rss": process.rss_bytes(),
        # those of the engine, too: what this process scores with
        "models": sorted("%s@%d" % (m.name, m.version) for m in session.models.values()),
        "cache_dir": settings.get("cache_dir") or caches.default_folder(),
        "problem": None,
        "hint": None,
    }
    try:
        _look_at_libraries(settings)
        row.update(libraries.versions())
        caches.open_cache(row["cache_dir"])
        row["cache_bytes"], row["cache_free"] = housekeeping.disk_usage(row["cache_dir"])
        row["devices"] = device_facts(settings, row["cache_dir"])
    except UdfError as err:
        row.update(problem=err.message, hint=err.hint or None)
    return row


def device_facts(settings: Dict[str, str], folder: str) -> Optional[Dict[str, Any]]:
    """Return the device that a setting names, how many of the models tried there it computes, and why not the others.

    None where it is the processor.
    """
    if (wanted := device.wanted(settings)) == device.CPU:
        return None
    found = [caches.read_trial(one.path)[0] for one in housekeeping.cached_models(folder)]
    agree = sum(trial.get("device") == wanted for trial in found)
    refused = [harmless_text(trial["refused"]) for trial in found if trial.get("refused")]
    reasons = sorted(set(refused))[:MOST_REASONS]
    return {"wanted": wanted, "models": agree, "tried": agree + len(refused), "reasons": reasons}


def _look_at_libraries(settings: Dict[str, str]) -> None:
    """Import the libraries; where this process is to be without them, see that they are there and safe."""
    if settings.get("isolation") != ALWAYS:
        libraries.import_libraries(settings.get("venv", ""), image_limits(settings).max_pixels)
    else:
        libraries.require_libraries(settings.get("venv", ""))


COUNTS = ("bytes", "requests", "errors", "restarts", "queue")


def engine_facts(
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
        return [_with_sums(found) for found in engine_status(settings)]
    except UdfError as err:
        problem = err.message + (" " + err.hint if err.hint else "")
        facts = {"host": socket.gethostname(), "digest": digest[:12], "models": [], "problem": problem}
        return [dict(facts, denied=err.foreign)]


def _with_sums(found: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts of one engine with the sums over its models; `bytes` are those of all its processes."""
    sums = {name: sum(model.get(name) or 0 for model in found["models"]) for name in COUNTS}
    sums["bytes"] += found.get("own_bytes", 0)
    return {"host": socket.gethostname(), **sums, **found, "problem": found.get("problem") or None}


def cache(session: Any, plpy: Any, settings: str, digests: Optional[List[str]]) -> str:
    """Return the facts of this host's cache as JSON; `digests` None: prune nothing."""
    session.settle()
    try:
        return fastjson.dumps(housekeeping.cache_facts(fastjson.loads(settings), digests))
    except UdfError as err:
        raise_in_database(plpy, err)


def leave(session: Any, plpy: Any, settings: str) -> int:
    """Remove what only this database has put on this host; return how many models that were."""
    session.settle()
    values = fastjson.loads(settings)
    folders = {caches.default_folder(), values.get("cache_dir") or caches.default_folder()}
    try:
        removed = [
            one for folder in sorted(folders) for one in housekeeping.leave_cache(folder, values["databases"])
        ]
    except UdfError as err:
        raise_in_database(plpy, err)
    if process.dispatches():
        handover.remove_left()
    elif process.content_id() not in (None, process.COORDINATOR):
        # gpexpand makes a new segment of the coordinator's folder, and nobody reads it there
        shutil.rmtree(os.path.dirname(handover.session_folder()), ignore_errors=True)
    session.usage().leave(values["databases"])
    return len(removed)


def status(session: Any, settings: str) -> str:
    """Return what there is to know of this backend and its host, as JSON."""
    try:
        return fastjson.dumps(backend_facts(session, fastjson.loads(settings)))
    except Exception as err:
        # one sick backend must not hide the others in the view
        return fastjson.dumps(
            {"problem": "%s: %s" % (type(err).__name__, err), "python": sys.version.split()[0]}
        )
