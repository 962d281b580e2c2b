"""What a backend, the command line and the doctor ask of the engine: to start, a model and its rows, one connection
for each, status and stop.

Standard library only: a backend that scores through the engine imports neither numpy nor OpenCV nor OpenVINO.
"""

from __future__ import annotations

import os
import sys
import time

from .. import fastjson
from ..errors import PUBLIC, CancelledError, EngineError
from ..host import process, protocol
from ..host.process import postmaster
from . import address

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

FIRST_BYTES = 1 << 16
TRIES = 10  # between two rows a model may be dropped for others, or its engine may end


class LostError(Exception):
    """No answer came. args[0] says whether the request may have begun."""


class RemoteModel:
    """A model in the engine; see Engine.open.

    Attributes:
        facts: `rows` and `threads` of one inference, `result_bytes` of an image, `compile_milliseconds`; of the trial
            `infer_milliseconds` and `batch_milliseconds`.
        name, version: of the model.
        passing: it serves a session's first rows only; see models.HostEngine.
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
        # fewer than wanted, where more do not pay: opened again, it asks for these at once
        self._wanted = dict(self._wanted, threads=self.facts["threads"])

    def release(self) -> None:
        """Give the model back unused."""
        self._engine.release(self._key)

    def ask(
        self, task: str, img: Optional[bytes], k: Any, meanwhile: Optional[Callable[[], None]] = None
    ) -> Any:
        """Return what RUNS[task](model, img, k) returns in the engine, or raise what it raises.

        Args:
            meanwhile: called while the engine computes; again where the engine was lost and the row is sent again.

        Raises:
            RowError: the worker died of this row, or took more time or memory than it may.
            EngineError: the engine has gone and cannot be started again.
            CancelledError: the statement was cancelled meanwhile.
        """
        answer = self._request(task, img, k, meanwhile)
        return self._warmed(answer) if task == "warm" else answer

    def waited_for(self, seconds: float) -> None:
        """Note how many seconds the user waited for the model: for runtime, files, engine and compilation."""
        self._load_milliseconds = seconds * 1e3

    def _warmed(self, answer: str) -> str:
        """Return a worker's answer with this backend's segment and pid, and with the time that it waited."""
        found = protocol.unpack_warmth(answer)
        waited, self._load_milliseconds = self._load_milliseconds, 0.0
        found.update(content=process.content_id(), pid=os.getpid())
        return fastjson.dumps(dict(found, milliseconds=round(found["milliseconds"] + waited, 1)))

    def wide(self, rows: int) -> RemoteModel:
        """Return the model for so many rows at once; one such model is kept beside the one for a single row."""
        if rows == self.facts["rows"]:
            return self
        if self._wide is None or self._wide._wanted["rows"] != rows:
            self._wide = RemoteModel(self._engine, dict(self._wanted, rows=rows))
        return self._wide

    def _request(
        self, task: str, img: Optional[bytes], k: Any, meanwhile: Optional[Callable[[], None]]
    ) -> Any:
        number = os.urandom(8)
        parts = protocol.pack_request(number, task, img, k)
        lost = 0
        for _ in range(TRIES):
            try:
                kind, body = self._exchange(parts, meanwhile)
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
            return protocol.unpack_answer(kind, body)
        raise EngineError("the engine was lost while it scored this row", hint="Run the statement again.")

    def _after(self, number: bytes) -> int:
        """Return 1 where the engine of an unanswered request has gone, 0 where the request never began; else raise."""
        try:
            verdict = self._engine.verdict(self._key, number.hex())
        except address.GoneError:
            return 1
        if "error" in verdict:
            raise protocol.rebuild_error(verdict["error"])
        return 0

    def _exchange(self, parts: List[bytes], meanwhile: Optional[Callable[[], None]]) -> Tuple[int, bytes]:
        """Return kind and body of the answer; LostError where none comes."""
        sent = False
        connection = protocol.open_socket()
        try:
            protocol.connect(connection, self._path)
            sent = True
            protocol.send(connection, parts)
            if meanwhile is not None:
                meanwhile()
            return _receive(connection)
        except (OSError, protocol.ClosedError) as err:
            raise LostError(sent) from err
        finally:
            # also after an error: an answer that was not read must not reach another row
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


STARTS = 3  # an engine may end between its start and our request
STATUS_SECONDS = 5.0


class Engine:
    """The engine of this host and user, as seen by one runtime.

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
        """Start the engine where none runs; EngineError where that is not possible."""
        self._ask({"op": "hello"})

    def load(self, wanted: Dict[str, Any]) -> Dict[str, Any]:
        """Return what the supervisor says of a model that it has loaded: path, key and facts; see open."""
        found = self._ask(dict(wanted, op="open", server=postmaster(), python=sys.version_info[:2]))
        if "error" in found:
            raise protocol.rebuild_error(found["error"])
        return found

    def verdict(self, key: str, request: str) -> Dict[str, Any]:
        """Return what became of a request that got no answer; GoneError where its engine has gone."""
        place = address.find(self.settings, self.digest)
        return address.call(place.control, {"op": "verdict", "key": key, "request": request}, 10.0)

    def cancel(self, key: str, request: str) -> None:
        """Tell the engine that nobody waits for a request any more."""
        self._tell({"op": "cancel", "key": key, "request": request})

    def release(self, key: str) -> None:
        """Tell the engine that a model was opened for nothing; it is dropped, unless somebody has used it."""
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
            # process 1 inherits every orphan, and the server restarts all sessions when one of them ends by a signal
            raise EngineError(
                "the database server is process 1 of its container, and would take the end of an engine for a crash",
                hint="Start the container with an init process: docker run --init, or init: true in its compose file",
            )
        address.require_writable(address.find(self.settings, self.digest))
        start_engine(call_of(self.settings, self.digest, self.modules(), postmaster()))


START_SECONDS = 30.0  # until it listens; Python starts in 20 ms
# Leaves room in the command line for the title that ps shows
TITLE = "dbinfer-engine" + " " * 48

PROGRAM = """
import importlib
import json as _json
_call = _json.loads(%r)
sys.path[:] = _call["paths"]
sys.meta_path.insert(0, Finder(PREFIX + _call["digest"][:12], _call["modules"]))
importlib.import_module(PREFIX + _call["digest"][:12] + ".engine.supervisor").be_engine(_call)
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


def start_engine(call: Dict[str, Any]) -> None:
    """Start an engine and return when one listens: this one, or another that was started at the same time.

    Raises:
        EngineError: it cannot be started.
        CancelledError: the statement was cancelled meanwhile; the engine starts nevertheless.
    """
    # only here: most backends find an engine
    import subprocess

    from ..host import own_python

    python = own_python.python_of(call["settings"])
    pipes: Dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        process = own_python.start_python(
            python, engine_program(call), TITLE, start_new_session=True, **pipes
        )
    except OSError as err:
        message = "the engine's Python, %s, cannot be started: %s" % (python, err.strerror)
        raise EngineError(message, public=PUBLIC) from err
    try:
        _wait_until_ready(process)
    finally:
        process.stdout.close()
        # the engine is its child; a backend must not collect zombies
        process.kill()
        process.wait()


def engine_program(call: Dict[str, Any]) -> bytes:
    """Return what the interpreter runs: the bootstrap's Finder over the sources, then the engine."""
    bootstrap: str = call["modules"]["bootstrap"]
    return (bootstrap + PROGRAM % fastjson.dumps(call)).encode()


def _wait_until_ready(process: Any) -> None:
    """Wait until the process says `ready`; anything else that it says is the error."""
    import select

    said, out, until = b"", process.stdout.fileno(), time.monotonic() + START_SECONDS
    while not said.endswith(b"ready\n"):
        if select.select([out], [], [], protocol.STEP)[0]:
            block = os.read(out, 65536)
            said += block
            if not block:
                lines = said.decode(errors="replace").strip().splitlines() or ["it says nothing"]
                raise EngineError("the engine cannot be started: %s" % lines[-1], public=PUBLIC)
        protocol.look_for_cancel(until)


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
    """Be the engine until it is told to stop, without a server and however idle. It replaces this process, or raises.

    Raises:
        EngineError: its Python cannot be started.
    """
    from ..host.own_python import python_of
    from ..host.sandbox import memory_file

    python, source = python_of(settings), engine_program(call_of(settings, digest, modules, 0))
    os.dup2(memory_file("dbinfer-engine", source), 0)
    try:
        os.execv(python, [python, "-I", "-", TITLE])
    except OSError as err:
        raise EngineError("the engine's Python, %s, cannot be started: %s" % (python, err.strerror)) from err
