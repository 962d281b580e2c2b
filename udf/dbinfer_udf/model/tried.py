"""Tries a model at its first use on this host, so that a backend compiles nothing that was not tried.

The registry's word is not enough, because whoever may deploy can write there what they like. The outcome lies beside
the model's files in the host cache, which only the server's user can write.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from functools import partial
from typing import Any, Callable, ContextManager, Dict, List, Optional, Set

from ..errors import ModelError
from ..host import interrupts
from ..host.cache import TRIAL_NUMBERS, Entry, Keeper, files_gone, read_trial, trial_path, write_whole
from ..host.libraries import signals_open
from ..host.limits import threads_taken, threads_to_try
from ..host.memory import cancelled_error, no_room_error, one_at_a_time, room_beside
from ..host.own_python import python_of
from ..host.process import processor
from ..host.sandbox import KERNEL, SYSTEM
from ..host.tokenizers import require_where_needed
from . import device as devices
from .device import Setup
from .trial import AbandonedError, Limits, Result, TrialError, run_trial

# How an IR begins; the same in dbinfer._add_version
_begins_ir = re.compile(rb"\s*(<\?xml[^>]*>\s*)?<net[\s>]").match
# A good model may have failed on a busy host and is tried again; a bad one must not cost each statement a process
FAILURE_SECONDS = 600
# After this time a host that had no cores left for several threads may have some, and a device may agree
BUSY_SECONDS = 3600


def require_tried(
    entry: Entry, precision: str, settings: Dict[str, str], openvino: str, most: int = 1
) -> Dict[str, float]:
    """Return milliseconds by threads if the model passed its trial on this host; try it now if nobody has.

    Args:
        openvino: its version; another version tries again, and so does another processor.
        most: threads that the caller may use.

    Raises:
        ModelError: it failed, now or a short time ago under the same limits; this host lacks the tokenizers that it
            needs; or the statement was cancelled meanwhile.
    """
    _require_ir(entry)
    limits = Limits.from_settings(settings)
    # a data directory may move to another machine, whose processor takes another time
    asked = [openvino, precision, *limits, *processor()]
    device = devices.wanted(settings)
    if device != devices.CPU:
        asked.append(device)
    outcome = _known_outcome(entry, asked)
    if not _settled(outcome, settings, most):
        with _one_at_a_time(entry), signals_open():
            # read again: who waited for the lock finds what the other process found
            outcome = _known_outcome(entry, asked)
            if not _settled(outcome, settings, most):
                # not kept: it is the host's lack, and is over when the package is there
                require_where_needed(entry.path("xml"), openvino)
                outcome = _try_now(entry, precision, limits, settings, outcome)
                # a fault of the host says nothing about the model
                if outcome["lasting"]:
                    _keep_outcome(entry, dict(outcome, asked=asked))
    assert outcome is not None
    if outcome["error"]:
        if entry.gone():
            raise files_gone("the model")
        raise ModelError("the model was not run: %s" % outcome["error"], hint=_hint(outcome))
    by_threads: Dict[str, float] = outcome["by_threads"]
    return by_threads


def _require_ir(entry: Entry) -> None:
    """Raise unless the file is an IR: OpenVINO goes by the content, and would run an ONNX file."""
    try:
        with open(entry.path("xml"), "rb") as xml:
            begins = xml.read(512)
    except FileNotFoundError:
        raise files_gone("the model") from None
    if not _begins_ir(begins):
        raise ModelError(
            "the model's xml file is not an OpenVINO IR", hint="Convert and deploy the model again."
        )


def _one_at_a_time(entry: Entry) -> ContextManager[None]:
    """Run the block while no other process tries this model: of parallel workers, one tries and the others read."""
    return one_at_a_time(entry.lock_path(), entry.folder, "tried")


def _try_now(
    entry: Entry, precision: str, limits: Limits, settings: Dict[str, str], passed: Optional[Dict[str, Any]]
) -> Dict[str, Any]:
    """Return what a trial finds; `passed`, the outcome of an earlier one, holds on where this one fails."""
    waits = Keeper(entry.folder)

    def stop() -> bool:
        waits()
        return interrupts.cancelled()

    # no more than is free, because the kernel would end a backend for a model that takes more
    room = room_beside(settings)
    bound = limits if room is None else limits._replace(memory_bytes=min(limits.memory_bytes, room))
    python, xml = python_of(settings), entry.path("xml")
    # whoever deployed it: a model that runs for the first time reaches nothing else
    readable = [*libraries_of(entry.folder, settings), xml, entry.path("bin")]
    run = partial(run_trial, python, xml, limits=bound, stop=stop)
    try:
        guards = devices.guards(devices.CPU, readable, ())
        found = run(setup=Setup(precision), threads=threads_to_try(settings), guards=guards)
        outcome = _outcome("", "", True, found)
        if (device := devices.wanted(settings)) != devices.CPU:
            guards = devices.guards(device, readable, ())
            outcome.update(_on_device(partial(run, setup=Setup(precision, device), guards=guards), device))
    except TrialError as err:
        if passed:
            return {"by_threads": {}, "busy": False, **passed}
        if bound != limits and err.setting == "max_model_mb":
            raise no_room_error(err.message) from None
        return _outcome(err.message, err.setting, err.lasting)
    except AbandonedError:
        raise cancelled_error("tried") from None
    return outcome


def _on_device(run: Callable[[], Result], device: str) -> Dict[str, Any]:
    """Return what the trial on another device than the processor adds to an outcome, where it passed; else why not."""
    try:
        return dict(_outcome("", "", True, run()), device=device)
    except TrialError as err:
        return {"refused": err.message}


def _outcome(error: str, setting: str, lasting: bool, found: Optional[Result] = None) -> Dict[str, Any]:
    """Return what is kept of a trial; the milliseconds of an image decide where the model runs (see engine.models)."""
    return {
        "error": error,
        "setting": setting,
        "lasting": lasting,
        **{name: getattr(found, name, None) for name in TRIAL_NUMBERS},
        "by_threads": found.by_threads if found else {},
        "busy": bool(found and found.busy),
    }


def libraries_of(folder: str, settings: Dict[str, str]) -> List[str]:
    """Return what must be readable to compile a model and to try it, without what holds the data of a server.

    Args:
        folder: of the model in the host cache.
    """
    python = python_of(settings)
    found = {*SYSTEM, *sys.path, *_mapped_libraries(), python, os.path.dirname(os.__file__)}
    if settings.get("venv"):
        found.add(settings["venv"])
    cache = os.path.dirname(os.path.realpath(folder))
    real = {os.path.realpath(path) for path in found if path}
    # a folder above the cache would open the data directory, too
    found = {path for path in real if not (cache + "/").startswith(path.rstrip("/") + "/")}
    # not resolved: in /proc each process opens its own
    return [*KERNEL, *sorted(found)]


def _mapped_libraries() -> Set[str]:
    """Return the folders of the libraries that this process has mapped, and its program (not the program's folder)."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        lines = [line.split(maxsplit=5) for line in maps]
        paths = [fields[5].rstrip("\n") for fields in lines if len(fields) == 6 and "x" in fields[1]]
        return {os.path.dirname(path) if ".so" in path else path for path in paths if path.startswith("/")}
    return set()


def _hint(outcome: Dict[str, Any]) -> str:
    setting = outcome["setting"]
    if not outcome.get("lasting", True):
        return "This host is at fault, not the model: dbinfer doctor looks at it."
    if not setting:
        return "Convert and deploy it again, and compare the OpenVINO versions with dbinfer doctor."
    return "If the model is right, allow more: dbinfer install --%s NUMBER" % setting.replace("_", "-")


def _known_outcome(entry: Entry, asked: List[Any]) -> Optional[Dict[str, Any]]:
    """Return the outcome of a trial under the same conditions; a failure counts for a while, a success for good."""
    values, age = read_trial(entry.folder)
    if not values or values["asked"] != asked:
        return None
    # a clock that was set back must not keep a failure
    return None if values["error"] and not 0 <= age < FAILURE_SECONDS else dict(values, age=age)


def _settled(outcome: Optional[Dict[str, Any]], settings: Dict[str, str], most: int) -> bool:
    """Return whether there is an outcome that answers all questions, or as many as can be answered for now."""
    if outcome is None or outcome["error"]:
        return outcome is not None
    # an older runtime tried one thread alone
    by_threads = outcome.get("by_threads")
    if by_threads is None:
        return False
    if outcome.get("refused"):
        # a driver may have been mended
        return bool(0 <= outcome["age"] < BUSY_SECONDS)
    return (
        not outcome["busy"]
        or threads_taken(settings, most, by_threads) == most
        or 0 <= outcome["age"] < BUSY_SECONDS
    )


def _keep_outcome(entry: Entry, outcome: Dict[str, Any]) -> None:
    """Keep the outcome; where that is not possible the next process tries again."""
    # the age of the file that is replaced
    outcome.pop("age", None)
    with contextlib.suppress(OSError):
        write_whole(trial_path(entry.folder), json.dumps(outcome))
