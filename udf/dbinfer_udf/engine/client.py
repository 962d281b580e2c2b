"""What a backend, the command line and the doctor call: open a model in the engine, ask it for rows, status and stop.

Standard library only: a backend that scores through the engine imports neither numpy nor OpenCV nor OpenVINO.
"""

from __future__ import annotations

import os
import sys

from ..process import postmaster
from . import address, control, wire
from .errors import PUBLIC, CancelledError, EngineError, RowError
from .remote import RemoteModel

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

__all__ = [
    "CancelledError",
    "Engine",
    "EngineError",
    "RemoteModel",
    "RowError",
    "run_service",
    "status",
    "stop",
]

STARTS = 3  # an engine may end between its start and our question
STATUS_SECONDS = 5.0


class Engine:
    """The way to the engine of this host and user, as one runtime knows it.

    Args:
        settings: of the database; engine_dir, engine_idle_seconds, engine_memory_mb and venv count here.
        digest: of the runtime; an engine of another one is another engine.
        modules: returns the runtime's sources, which an engine that is started runs.
        starts: start it where none runs, else this is an EngineError.
    """

    def __init__(
        self,
        settings: Dict[str, str],
        digest: str,
        modules: Callable[[], Dict[str, str]],
        starts: bool = True,
    ) -> None:
        self._starts = starts
        self.settings = settings
        self.digest = digest
        self.modules = modules

    def open(self, spec: Dict[str, Any], folder: str, threads: int, rows: int = 1) -> RemoteModel:
        """Return the model, loaded in the engine; start the engine and load the model where needed.

        Args:
            spec: of the ticket: model, version, xml_digest, bin_digest, manifest, settings.
            folder: of the model's entry in the host cache.
            threads: for one inference, at most.
            rows: images of one inference.

        Raises:
            EngineError: the engine cannot be started or reached.
            ModelError: what load_model would raise in the backend.
            CancelledError: the statement was cancelled meanwhile.
        """
        return RemoteModel(self, {"spec": spec, "folder": folder, "threads": threads, "rows": rows})

    def attach(self) -> None:
        """Start the engine where none runs; EngineError where that cannot be."""
        self._ask({"op": "hello"})

    def load(self, wanted: Dict[str, Any]) -> Dict[str, Any]:
        """Return what the supervisor says of a model that it has loaded: path, key and facts; see open."""
        found = self._ask(dict(wanted, op="open", server=postmaster(), python=sys.version_info[:2]))
        if "error" in found:
            raise wire.rebuild(found["error"])
        return found

    def verdict(self, key: str, request: str) -> Dict[str, Any]:
        """Return what became of a request that got no answer; GoneError where its engine has gone."""
        place = address.find(self.settings, self.digest)
        return control.call(place.control, {"op": "verdict", "key": key, "request": request}, 10.0)

    def cancel(self, key: str, request: str) -> None:
        """Say that nobody waits for a request any more."""
        self._tell({"op": "cancel", "key": key, "request": request})

    def release(self, key: str) -> None:
        """Say that a model was opened for nothing; it goes, unless somebody has used it."""
        self._tell({"op": "release", "key": key})

    def _tell(self, message: Dict[str, Any]) -> None:
        try:
            control.tell(address.find(self.settings, self.digest).control, message)
        except EngineError:
            pass

    def _ask(self, message: Dict[str, Any]) -> Dict[str, Any]:
        place = address.find(self.settings, self.digest)
        for _ in range(STARTS):
            try:
                return control.call(place.control, message)
            except control.GoneError as err:
                if not self._starts:
                    raise EngineError("no engine runs on this host", public=PUBLIC) from err
                self._start()
        problem = "the engine ends as soon as it has started"
        raise EngineError(problem, hint="See its log: %s" % place.log, public=PUBLIC)

    def _start(self) -> None:
        if sys.platform != "linux":
            raise EngineError("the engine needs Linux, but this host runs %s" % sys.platform)
        if postmaster() == 1:
            # it collects every orphan, and restarts all sessions where one was ended by a signal
            raise EngineError(
                "the database server is process 1 of its container, and would take the end of an engine for a crash",
                hint="Start the container with an init process: docker run --init, or init: true in its compose file",
            )
        # only here: most backends find an engine
        from .start import call_of, start

        start(call_of(self.settings, self.digest, self.modules(), postmaster()))


def status(settings: Dict[str, str]) -> List[Dict[str, Any]]:
    """Return the facts of each engine in this user's folder; `problem` says why one does not answer.

    Each has pid, digest, uptime (seconds), service, sandbox (the kernel's guards), problem, and models: model, version,
    key, rows, threads, bytes, workers, requests, errors, restarts, queue, sandbox (what holds for its workers).
    """
    found = []
    for place in address.engines(address.find(settings, "", make=False)):
        try:
            found.append(control.call(place.control, {"op": "status"}, STATUS_SECONDS))
        except control.GoneError:  # a killed engine leaves its socket
            continue
        except EngineError as err:
            found.append({"digest": place.digest, "pid": None, "models": [], "problem": err.message})
    return found


def stop(settings: Dict[str, str], digest: Optional[str] = None, keep: Optional[str] = None) -> int:
    """Tell engines to finish what runs and go; return how many were told.

    Args:
        digest: only the engine of this runtime.
        keep: all but the engine of this runtime.
    """
    told = 0
    for place in address.engines(address.find(settings, "", make=False)):
        if place.digest not in ((digest or place.digest)[:12],) or place.digest == (keep or "")[:12]:
            continue
        try:
            control.call(place.control, {"op": "stop"}, STATUS_SECONDS)
            told += 1
        except control.GoneError:
            pass
    return told


def run_service(settings: Dict[str, str], digest: str, modules: Dict[str, str]) -> int:
    """Be the engine until it is told to stop; no idle end, no server. It replaces this process, or raises.

    Raises:
        EngineError: its Python cannot be started.
    """
    from ..tried import python_of
    from .kernel import memory_file
    from .start import NAME, call_of, program

    python, source = python_of(settings), program(call_of(settings, digest, modules, 0))
    os.dup2(memory_file("dbinfer-engine", source), 0)
    try:
        os.execv(python, [python, "-I", "-", NAME])
    except OSError as err:
        raise EngineError("the engine's Python, %s, cannot be started: %s" % (python, err.strerror)) from err
