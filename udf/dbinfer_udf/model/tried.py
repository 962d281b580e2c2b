"""Lets nothing be compiled in a backend that was not tried on this host: the first use of a model tries it.

The registry's word is not enough, because whoever may deploy can write there what he likes. The outcome lies beside
the model's files in the host cache, which only the server's user can write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from typing import Any, ContextManager, Dict, List, Optional, Set

from ..errors import ModelError
from ..host import interrupts, signals
from ..host.cache import Entry
from ..host.limits import steps, taken
from ..host.marks import Waiting
from ..host.memory import cancelled, no_room, room_beside, turn
from ..host.process import kind
from ..host.sandbox import KERNEL, SYSTEM
from . import figures
from .trial import AbandonedError, Limits, Result, TrialError, run_trial

# How an IR begins; the same in dbinfer._add_version
_begins_ir = re.compile(rb"\s*(<\?xml[^>]*>\s*)?<net[\s>]").match
# A host that was busy may have failed a good model; a bad one shall not take a process of every statement
FAILURE_SECONDS = 600
# A host that had no cores left for several threads may have some now
BUSY_SECONDS = 3600


def require_tried(
    entry: Entry, precision: str, settings: Dict[str, str], openvino: str, most: int = 1
) -> Dict[str, float]:
    """Return milliseconds by threads where the model passed its trial on this host; try it now where nobody has.

    Args:
        openvino: its version; another one tries again, and so does another processor.
        most: threads that the caller may use.

    Raises:
        ModelError: it failed, now or a short time ago under the same limits; or the statement was cancelled meanwhile.
    """
    _require_ir(entry)
    limits = Limits.from_settings(settings)
    # another processor takes another time, and a data directory may move to another machine
    asked = [openvino, precision, *limits, *kind()]
    outcome = _read(entry, asked)
    if not _settled(outcome, settings, most):
        with _alone(entry), signals.signals_open():
            # read again: who waited for the lock finds what the other process found
            outcome = _read(entry, asked)
            if not _settled(outcome, settings, most):
                outcome = _try(entry, precision, limits, settings, outcome)
                # a fault of the host says nothing about the model
                if outcome["lasting"]:
                    _write(entry, dict(outcome, asked=asked))
    assert outcome is not None
    if outcome["error"]:
        raise ModelError("the model was not run: %s" % outcome["error"], hint=_hint(outcome["setting"]))
    by_threads: Dict[str, float] = outcome["by_threads"]
    return by_threads


def _require_ir(entry: Entry) -> None:
    """Raise where the file is something else: OpenVINO tells by the content, and would run an ONNX file."""
    with open(entry.path("xml"), "rb") as xml:
        if not _begins_ir(xml.read(512)):
            raise ModelError(
                "the model's xml file is not an OpenVINO IR", hint="Convert and deploy the model again."
            )


def _alone(entry: Entry) -> ContextManager[None]:
    """Wait until no other process tries this model: parallel workers come together, one tries, the others read."""
    return turn(os.path.join(entry.folder, "trial.lock"), entry.folder, "tried")


def _try(
    entry: Entry, precision: str, limits: Limits, settings: Dict[str, str], passed: Optional[Dict[str, Any]]
) -> Dict[str, Any]:
    """Return what a trial finds; `passed`, the outcome of an earlier one, holds on where this one fails."""
    waits = Waiting(entry.folder)

    def stop() -> bool:
        waits()
        return interrupts.cancelled()

    # what is free, because the kernel would end a backend for a model that takes more
    room = room_beside(settings)
    bound = limits if room is None else limits._replace(memory_bytes=min(limits.memory_bytes, room))
    python, xml = python_of(settings), entry.path("xml")
    # whoever deployed it, and wherever this is: what runs for the first time reaches nothing
    readable = [*libraries_of(entry.folder, settings), xml, entry.path("bin")]
    try:
        found = run_trial(python, xml, precision, bound, steps(settings), stop, guards=(readable, ()))
    except TrialError as err:
        if passed:
            return {"by_threads": {}, "busy": False, **passed}
        if bound != limits and err.setting == "max_model_mb":
            raise no_room(err.message) from None
        return _outcome(err.message, err.setting, err.lasting)
    except AbandonedError:
        raise cancelled("tried") from None
    return _outcome("", "", True, found)


def _outcome(error: str, setting: str, lasting: bool, found: Optional[Result] = None) -> Dict[str, Any]:
    """Return what is kept of a trial: whether an image takes long decides where the model runs (see isolation)."""
    names = ("milliseconds", "batch_milliseconds", "compile_milliseconds")
    return {
        "error": error,
        "setting": setting,
        "lasting": lasting,
        **{name: getattr(found, name, None) for name in names},
        "by_threads": found.by_threads if found else {},
        "busy": bool(found and found.busy),
    }


def python_of(settings: Dict[str, str]) -> str:
    """Return the interpreter of the venv; where there is none, that of this process."""
    venv = settings.get("venv", "")
    if venv:
        return os.path.join(venv, "bin", "python")
    # In a backend sys.executable may be the server's or empty: Python is embedded there
    return os.path.join(sys.base_exec_prefix, "bin", "python%d.%d" % sys.version_info[:2])


def libraries_of(folder: str, settings: Dict[str, str]) -> List[str]:
    """Return what must be readable to compile a model and to try it, without what holds the data of a server.

    Args:
        folder: of the model in the host cache.
    """
    python = python_of(settings)
    found = {*SYSTEM, *sys.path, *_mapped(), python, os.path.dirname(os.__file__)}
    if settings.get("venv"):
        found.add(settings["venv"])
    cache = os.path.dirname(os.path.realpath(folder))
    real = {os.path.realpath(path) for path in found if path}
    # a path above the cache would open the data directory, too
    found = {path for path in real if not (cache + "/").startswith(path.rstrip("/") + "/")}
    # not resolved: of /proc each process opens its own
    return [*KERNEL, *sorted(found)]


def _mapped() -> Set[str]:
    """Return the folders of the libraries that this process has mapped, and its program, whose folder holds others."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        lines = [line.split(maxsplit=5) for line in maps]
        paths = [fields[5].rstrip("\n") for fields in lines if len(fields) == 6 and "x" in fields[1]]
        return {os.path.dirname(path) if ".so" in path else path for path in paths if path.startswith("/")}
    return set()


def _hint(setting: str) -> str:
    if not setting:
        return "Convert and deploy it again, and compare the OpenVINO versions with dbinfer doctor."
    return "If the model is right, allow more: dbinfer install --%s NUMBER" % setting.replace("_", "-")


def _read(entry: Entry, asked: List[Any]) -> Optional[Dict[str, Any]]:
    """Return the outcome of a trial under the same conditions; a failure counts for a while, a success for good."""
    values, age = figures.read(entry.folder)
    if not values or values["asked"] != asked:
        return None
    # a clock that was set back must keep no failure
    return None if values["error"] and not 0 <= age < FAILURE_SECONDS else dict(values, age=age)


def _settled(outcome: Optional[Dict[str, Any]], settings: Dict[str, str], most: int) -> bool:
    """Return whether there is an outcome which says what is to be known, or as much as may be had for now."""
    if outcome is None or outcome["error"]:
        return outcome is not None
    # an older runtime tried one thread alone
    by_threads = outcome.get("by_threads")
    if by_threads is None:
        return False
    return (
        not outcome["busy"] or taken(settings, most, by_threads) == most or 0 <= outcome["age"] < BUSY_SECONDS
    )


def _write(entry: Entry, outcome: Dict[str, Any]) -> None:
    """Keep the outcome; where that is not possible the next process tries again."""
    # of the file that it replaces
    outcome.pop("age", None)
    temporary = ""
    try:
        fd, temporary = tempfile.mkstemp(dir=entry.folder, suffix=".tmp")
        with os.fdopen(fd, "w") as file:
            json.dump(outcome, file)
        os.rename(temporary, figures.path(entry.folder))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
