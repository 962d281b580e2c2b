"""What a backend, the command line and the doctor ask of the engine: a model and its rows, one connection for
each, status and stop.

Standard library only: a backend that scores through the engine imports neither numpy nor OpenCV nor OpenVINO.
"""

from __future__ import annotations

import os
import sys

from .. import fastjson
from ..errors import PUBLIC, CancelledError, EngineError, RowError
from ..host import process, protocol
from ..host.process import postmaster
from . import address

TYPE_CHECKING = False  # of typing itself: see fastjson

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

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


FIRST_BYTES = 1 << 16
TRIES = 10  # a model may be dropped for others, or its engine end, between two rows


class LostError(Exception):
    """No answer came; args[0] says whether the request may have begun."""


class RemoteModel:
    """A model in the engine; see Engine.open.

    Attributes:
        facts: `rows` and `threads` of one inference, `result_bytes` of an image, `compile_milliseconds`; of the trial
            `infer_milliseconds` and `batch_milliseconds`.
        name, version: of the model.
        passing: it serves a session's first rows only; see isolation.HostEngine.
    """

    def __init__(self, engine: Any, wanted: Dict[str, Any]) -> None:
        self._engine = engine
        self._wanted = wanted
        self.name: str = wanted["spec"]["model"]
        self.version: int = wanted["spec"]["version"]
        self.passing = False
        self._wide: Optional[RemoteModel] = None
        self._load_milliseconds = 0.0
        self._reopen()

    def _reopen(self) -> None:
        found = self._engine.load(self._wanted)
        self._path: str = found["path"]
        self._key: str = found["key"]
        self.facts: Dict[str, Any] = found["facts"]
        # fewer than were wanted where more do not pay; who opens it again asks for these at once
        self._wanted = dict(self._wanted, threads=self.facts["threads"])

    def release(self) -> None:
        """Give the model back without having asked it anything."""
        self._engine.release(self._key)

    def ask(self, task: str, img: Optional[bytes], k: Any) -> Any:
        """Return what TASKS[task](model, img, k) returns in the engine, or raise what it raises.

        Raises:
            RowError: the worker died of this row, or took more time or memory than it may.
            EngineError: the engine has gone and cannot be started again.
            CancelledError: the statement was cancelled meanwhile.
        """
        answer = self._request(task, img, k)
        return self._warmed(answer) if task == "warm" else answer

    def waited_for(self, seconds: float) -> None:
        """Note how long the user waited for it: runtime, files, engine and compiling."""
        self._load_milliseconds = seconds * 1e3

    def _warmed(self, answer: str) -> str:
        """Return the answer of a worker with what is this backend's: its segment, pid, and what it waited for."""
        found = protocol.warmth(answer)
        waited, self._load_milliseconds = self._load_milliseconds, 0.0
        found.update(content=process.content_id(), pid=os.getpid())
        return fastjson.dumps(dict(found, milliseconds=round(found["milliseconds"] + waited, 1)))

    def wide(self, rows: int) -> RemoteModel:
        """Return the model for so many rows at once; one is kept beside that for a single row."""
        if rows == self.facts["rows"]:
            return self
        if self._wide is None or self._wide._wanted["rows"] != rows:
            self._wide = RemoteModel(self._engine, dict(self._wanted, rows=rows))
        return self._wide

    def _request(self, task: str, img: Optional[bytes], k: Any) -> Any:
        number = os.urandom(8)
        parts = protocol.request(number, task, img, k)
        lost = 0
        for _ in range(TRIES):
            try:
                kind, body = self._exchange(parts)
            except LostError as err:
                lost += self._after(number) if err.args[0] else 0
                # an engine that was killed knows nothing of the row: once is chance, twice may be the row
                if lost > 1:
                    break
                self._reopen()
                continue
            except CancelledError:
                self._engine.cancel(self._key, number.hex())
                raise
            return protocol.result(kind, body)
        raise EngineError("the engine was lost while it scored this row", hint="Run the statement again.")

    def _after(self, number: bytes) -> int:
        """Return 1 where the engine of an unanswered request has gone, 0 where the request never began; else raise."""
        try:
            verdict = self._engine.verdict(self._key, number.hex())
        except address.GoneError:
            return 1
        if "error" in verdict:
            raise protocol.rebuild(verdict["error"])
        return 0

    def _exchange(self, parts: List[bytes]) -> Tuple[int, bytes]:
        """Return kind and body of the answer; LostError where none comes."""
        sent = False
        connection = protocol.open_socket()
        try:
            protocol.connect(connection, self._path)
            sent = True
            protocol.send(connection, parts)
            return _receive(connection)
        except (OSError, protocol.ClosedError) as err:
            raise LostError(sent) from err
        finally:
            # also after an error: an answer that was not read belongs to no other row
            connection.close()


def _receive(connection: Any) -> Tuple[int, bytes]:
    block = protocol.receive(connection, FIRST_BYTES)
    while len(block) < protocol.ANSWER.size:
        block += protocol.receive(connection, protocol.ANSWER.size - len(block))
    magic, kind, size = protocol.ANSWER.unpack_from(block)
    if magic != protocol.MAGIC or size > protocol.MOST_BYTES:
        raise protocol.ClosedError
    body = block[protocol.ANSWER.size :]
    if len(body) == size:
        return kind, body
    parts, have = [body], len(body)
    while have < size:
        parts.append(protocol.receive(connection, min(size - have, 1 << 20)))
        have += len(parts[-1])
    return kind, b"".join(parts)


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
            raise protocol.rebuild(found["error"])
        return found

    def verdict(self, key: str, request: str) -> Dict[str, Any]:
        """Return what became of a request that got no answer; GoneError where its engine has gone."""
        place = address.find(self.settings, self.digest)
        return address.call(place.control, {"op": "verdict", "key": key, "request": request}, 10.0)

    def cancel(self, key: str, request: str) -> None:
        """Say that nobody waits for a request any more."""
        self._tell({"op": "cancel", "key": key, "request": request})

    def release(self, key: str) -> None:
        """Say that a model was opened for nothing; it goes, unless somebody has used it."""
        self._tell({"op": "release", "key": key})

    def _tell(self, message: Dict[str, Any]) -> None:
        try:
            address.tell(address.find(self.settings, self.digest).control, message)
        except EngineError:
            pass

    def _ask(self, message: Dict[str, Any]) -> Dict[str, Any]:
        place = address.find(self.settings, self.digest)
        for _ in range(STARTS):
            try:
                return address.call(place.control, message)
            except address.GoneError as err:
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
            found.append(address.call(place.control, {"op": "status"}, STATUS_SECONDS))
        except address.GoneError:  # a killed engine leaves its socket
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
            address.call(place.control, {"op": "stop"}, STATUS_SECONDS)
            told += 1
        except address.GoneError:
            pass
    return told


def run_service(settings: Dict[str, str], digest: str, modules: Dict[str, str]) -> int:
    """Be the engine until it is told to stop; no idle end, no server. It replaces this process, or raises.

    Raises:
        EngineError: its Python cannot be started.
    """
    from ..host.sandbox import memory_file
    from ..model.tried import python_of
    from .start import NAME, call_of, program

    python, source = python_of(settings), program(call_of(settings, digest, modules, 0))
    os.dup2(memory_file("dbinfer-engine", source), 0)
    try:
        os.execv(python, [python, "-I", "-", NAME])
    except OSError as err:
        raise EngineError("the engine's Python, %s, cannot be started: %s" % (python, err.strerror)) from err
