"""The loader of one model: shuts itself in, loads it, forks workers, replaces those that die, and ends those that
take too long.

OpenVINO does not promise that a forked child can use what its parent compiled. Where it cannot, each worker compiles.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import socket
import time
from functools import partial
from time import monotonic, perf_counter, sleep
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..errors import EngineError, ModelError, RowError
from ..host import interrupts, libraries, protocol, sandbox
from ..host.cache import Entry, milliseconds_of, read_trial
from ..host.limits import threads_taken
from ..host.memory import require_memory
from ..image.file import image_limits
from ..model import device as devices
from ..model.model import Model, manifest_of
from ..model.trial import Limits
from ..model.tried import libraries_of, require_tried
from . import worker
from .slots import Slots

SECONDS = 10.0


def rehearse(model: Any, wanted: Dict[str, Any], seconds: float) -> Optional[Dict[str, Any]]:
    """Return what the kernel grants a worker; None where a forked worker cannot run the network.

    Args:
        wanted: what the model was opened with.
        seconds: that an inference may take.
    """
    tries = (_in_fork(partial(run_shut_in, model, wanted, filters), seconds) for filters in worker.filters())
    return next((found for found in tries if found is not None), None)


def run_shut_in(model: Any, wanted: Dict[str, Any], filters: str) -> Dict[str, Any]:
    """Shut this process in and run the network, alone and for a batch; return what the kernel granted."""
    found = worker.shut_in(wanted["semaphore"], filters, model.drivers)
    for network in (model.compiled, model.batch_network(wanted["rows"])):
        network.input.fill(0)
        network.infer()
    return found


def _in_fork(act: Callable[[], Dict[str, Any]], seconds: float) -> Optional[Dict[str, Any]]:
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_fork(act, seconds, into)
    os.close(into)
    with os.fdopen(out) as said:
        text = said.read()
    _, status = os.waitpid(pid, 0)
    try:
        found = protocol.bounded(json.loads(text)) if status == 0 else None
    except (ValueError, RecursionError, protocol.ClosedError):
        return None
    # what it says of its guards is shown only, but the filter that it names is used: it must be one of ours
    return found if isinstance(found, dict) and found.get("filter") in worker.FILTERS else None


def _be_fork(act: Callable[[], Dict[str, Any]], seconds: float, into: int) -> None:
    """Be the child; never return."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + SECONDS)
        os.write(into, json.dumps(act()).encode())
        os._exit(0)
    finally:
        os._exit(1)


# Sessions that have just ended give back their memory meanwhile; a refusal would fail all who wait for this model
ROOM_SECONDS = 2.0


def shut_in_loader(folder: str, settings: Dict[str, str]) -> Dict[str, Any]:
    """Bound memory, and allow only the libraries and one entry of the model cache; return what the kernel granted."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = Limits.from_settings(settings).memory_bytes + image_limits(settings).max_memory
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        # all of /proc: the process of a trial reads what is said of itself
        readable = [*libraries_of(folder, settings), "/proc"]
        found = sandbox.restrict_files(
            *devices.guards(devices.wanted(settings), readable, [folder, "/dev/null"])[:2]
        )
    except OSError as err:
        return {"landlock": 0, "problem": "no Landlock: %s" % err.strerror}
    return {"landlock": found}


def _wait_for_room(folder: str, settings: Dict[str, str]) -> None:
    """Wait until there is memory for the model; ModelError where there is none after a moment."""
    until = monotonic() + ROOM_SECONDS
    while True:
        try:
            require_memory(folder, settings)
            return
        except ModelError:
            if monotonic() > until:
                raise
        sleep(ROOM_SECONDS / 20)


def threads_after_trial(wanted: Dict[str, Any]) -> int:
    """Try the model if nobody has on this host; return how many of the wanted threads it takes.

    Raises:
        ModelError: the model cannot be used.
    """
    spec, entry = wanted["spec"], _entry(wanted)
    settings, precision = spec["settings"], manifest_of(spec).precision
    version = libraries.import_libraries(settings.get("venv", ""), image_limits(settings).max_pixels)[
        "openvino"
    ].get_version()
    # the trial needs as much as the model; Model checks again
    _wait_for_room(entry.folder, settings)
    by_threads = require_tried(entry, precision, settings, version, wanted["threads"])
    return threads_taken(settings, wanted["threads"], by_threads)


def _openvino(settings: Dict[str, str]) -> Any:
    return libraries.import_libraries(settings.get("venv", ""), image_limits(settings).max_pixels)["openvino"]


def _entry(wanted: Dict[str, Any]) -> Entry:
    spec = wanted["spec"]
    return Entry(os.path.dirname(wanted["folder"]), spec["xml_digest"], spec["bin_digest"])


def device_of(wanted: Dict[str, Any]) -> str:
    """Return the device that a model takes, which was tried before."""
    return devices.used(wanted["spec"]["settings"], read_trial(_entry(wanted).folder)[0])


def load_tried(wanted: Dict[str, Any]) -> Tuple[Model, Dict[str, Any]]:
    """Return the model, which was tried before and has run once, and its facts.

    Raises:
        ModelError: as models.load_model.
    """
    spec, entry = wanted["spec"], _entry(wanted)
    settings = spec["settings"]
    openvino = libraries.import_libraries(settings.get("venv", ""), image_limits(settings).max_pixels)[
        "openvino"
    ]
    started = perf_counter()
    model = Model(openvino, entry, spec, wanted["threads"], shut_in=True)
    rows = model.batch_network(wanted["rows"]).rows
    milliseconds = (perf_counter() - started) * 1e3
    # with all signals blocked, as the first inference is: afterwards a timer can end one
    model.compiled.input.fill(0)
    model.compiled.infer()
    # the memory of now is shared with the workers until somebody writes to it
    gc.collect()
    gc.freeze()
    facts = {
        "rows": rows,
        "compile_milliseconds": round(milliseconds, 1),
        "infer_milliseconds": milliseconds_of(entry.folder),
        "batch_milliseconds": read_trial(entry.folder)[0].get("batch_milliseconds"),
        "result_bytes": model.result_bytes,
    }
    return model, facts


def error_of_death(status: int, seconds: float, rows: int) -> RowError:
    """Return the error of a request whose worker ended with this status, as waitpid gives it.

    Args:
        seconds: that the request was allowed.
        rows: images of one inference.
    """
    if not os.WIFSIGNALED(status):
        return RowError("the worker that scored this image ended with status %d" % (status >> 8))
    number = os.WTERMSIG(status)
    if number == signal.SIGALRM:
        return RowError(
            "scoring %s took more than %g s" % (_images(rows), seconds),
            hint="If the model is right, allow more: dbinfer install --max-inference-seconds NUMBER",
            sqlstate="54000",
        )
    if number == signal.SIGKILL:
        return RowError("the worker that scored %s was killed" % _images(rows))
    return RowError("the worker that scored %s crashed (%s)" % (_images(rows), signal.Signals(number).name))


def _images(rows: int) -> str:
    return "this image" if rows == 1 else "these %d images" % rows


CANCEL_SECONDS = 0.5  # for a request that nobody waits for; then its worker is killed
# Beyond the limit of a request: to read it, to wait for permits, to send the answer, on a busy machine
LATE_SECONDS = 15.0
MOST_DEATHS, DEATH_SECONDS, REST_SECONDS = 5, 1.0, 1.0


class Crew:
    """The workers of a loader.

    Attributes:
        most: number of workers to keep.
        model: what they inherit; None where each compiles for itself.
        filters: the strictest filter of system calls under which they run, one of worker.FILTERS.

    Args:
        wanted: what the model was opened with.
        listener: the model's socket.
        say: tells the supervisor.
    """

    def __init__(
        self, wanted: Any, listener: Any, slots: Slots, say: Callable[[Dict[str, Any]], None]
    ) -> None:
        self._wanted, self._listener, self._slots, self._say = wanted, listener, slots, say
        spec = wanted["spec"]
        self._title = "%s@%s" % (spec["model"], spec["version"])
        # images of one inference: 1 where the network takes no more, which the first process to load it finds out
        self.rows: int = wanted["rows"]
        self.most = 1
        self.model: Any = None
        self.filters = worker.NO_THREADS
        self.pids: Dict[int, int] = {}
        self._listens = "socket:[%d]" % os.fstat(listener.fileno()).st_ino
        # of each worker: the connections that it holds, by the kernel's names, and when they were first seen
        self._held: Dict[int, Dict[str, float]] = {}
        self._deaths: List[float] = []
        self._cancelled: Dict[bytes, float] = {}
        self._rests_until = 0.0
        self._finishing = False

    def first(self) -> Dict[str, Any]:
        """Fork a worker that compiles for itself, as all others will; return the facts of the model."""
        for self.filters in worker.filters():
            found = self._first()
            if found:
                break
        if "facts" not in found:
            error = EngineError("the engine's worker ended while it loaded the model")
            raise protocol.rebuild_error(found["error"]) if "error" in found else error
        facts: Dict[str, Any] = found["facts"]
        return facts

    def _first(self) -> Dict[str, Any]:
        """Return what the first worker found: `facts` or `error`; nothing where it died."""
        out, into = os.pipe()
        pid = self._fork(0, into)
        os.close(into)
        with os.fdopen(out) as said:
            found = _first_found(said.read())
        if not found:
            os.waitpid(pid, 0)
            del self.pids[pid]
        return found

    def seconds(self) -> float:
        """Return how long a request may take."""
        return Limits.from_settings(self._wanted["spec"]["settings"]).image_seconds * self.rows

    def _fork(self, number: int, tells: int = -1) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._be_worker(parent, number, tells)
        self.pids[pid] = number
        return pid

    def _be_worker(self, parent: int, number: int, tells: int) -> None:
        """Be the child; never return. `tells`: the descriptor to report to, or -1."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sandbox.die_with(parent)
            sandbox.set_title("dbinfer-worker", self._title)
            sandbox.close_all_but([self._listener.fileno(), *([tells] if tells >= 0 else [])])
            slot = self._slots.slot(number)
            if self.model is None:
                model = self._load_own(tells)
            else:
                model = self.model
                worker.shut_in(self._wanted["semaphore"], self.filters, model.drivers)
            worker.Worker(model, self._wanted, self._listener, slot, self.seconds()).run()
            os._exit(0)
        except BaseException as err:
            os.write(2, ("A worker of %s ends: %r\n" % (self._title, err)).encode())
        finally:
            os._exit(1)

    def _load_own(self, tells: int) -> Any:
        """In a worker: load the model, shut this process in, and report both to the loader if it waits."""
        try:
            model, facts = load_tried(self._wanted)
        except Exception as err:
            _tell(tells, {"error": protocol.describe_error(err)})
            os._exit(1)
        self.rows = facts["rows"]
        # where the network cannot run under these guards, this process dies, and the loader reads nothing
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, self.seconds() + SECONDS)
        granted = run_shut_in(model, self._wanted, self.filters)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _tell(tells, {"facts": dict(facts, sandbox=dict(granted, compiled="by each worker"))})
        return model

    def tick(self) -> None:
        """Collect workers that died, end those that take too long, and replace both."""
        self._reap()
        self._end_those_too_long()
        self._fill()

    def finish(self) -> None:
        """Let all workers score what waits, and end."""
        self._finishing = True
        # this holds for all who share the socket; no worker must be able to do it
        self._listener.setblocking(False)
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)

    def cancel(self, request: bytes) -> None:
        """Note that nobody waits for a request."""
        self._cancelled[request] = time.monotonic()

    def _reap(self) -> None:
        while self.pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            number = self.pids.pop(pid, None)
            self._held.pop(pid, None)
            if number is not None:
                self._bury(number, status)

    def _bury(self, number: int, status: int) -> None:
        state = self._slots.read(number)
        if not (self._finishing and status == 0):
            request = state.request.hex() if state.since else ""
            reason = error_of_death(status, self.seconds(), self.rows)
            # said before the slot is cleared: whoever finds it empty finds the reason
            self._say({"died": request, "why": protocol.describe_error(reason)})
        self._slots.clear(number, state.since > 0)
        self._deaths = [*self._deaths[1 - MOST_DEATHS :], time.monotonic()]

    def _fill(self) -> None:
        """Replace workers that died, after a pause where they die at once."""
        now = time.monotonic()
        if len(self._deaths) == MOST_DEATHS and now - self._deaths[0] < DEATH_SECONDS:
            self._rests_until, self._deaths = now + REST_SECONDS, []
        if not self._finishing and now >= self._rests_until:
            for number in set(range(self.most)) - set(self.pids.values()):
                # too many processes: tried again a tick later
                with contextlib.suppress(OSError):
                    self._fork(number)

    def _end_those_too_long(self) -> None:
        now = time.monotonic()
        seconds = self.seconds() + LATE_SECONDS
        for pid, number in self.pids.items():
            state = self._slots.read(number)
            asked: Optional[float] = self._cancelled.get(state.request) if state.since else None
            unwanted = asked is not None and now - asked > CANCEL_SECONDS
            if unwanted or now - self._holds_since(pid, now) > seconds:
                os.kill(pid, signal.SIGKILL)
        self._cancelled = {r: at for r, at in self._cancelled.items() if now - at < seconds}

    def _holds_since(self, pid: int, now: float) -> float:
        """Return since when a worker has held its oldest connection; asks the kernel, and not the worker's slot."""
        before = self._held.get(pid, {})
        held = self._held[pid] = {
            name: before.get(name, now) for name in _sockets_of(pid) if name != self._listens
        }
        return min(held.values(), default=now)


def _first_found(text: str) -> Dict[str, Any]:
    """Return what a worker that compiles for itself has found: `facts` or `error`; nothing where it says neither."""
    try:
        said = protocol.bounded(json.loads(text))
    except (ValueError, RecursionError, protocol.ClosedError):
        return {}
    facts = said.get("facts", {"rows": 1, "sandbox": {}}) if isinstance(said, dict) else {}
    sound = (
        isinstance(facts, dict) and type(facts.get("rows")) is int and isinstance(facts.get("sandbox"), dict)
    )
    return said if sound else {}


def _sockets_of(pid: int) -> Set[str]:
    """Return the sockets that a process has open, each under a name of its own; none where /proc does not say."""
    found = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir("/proc/%d/fd" % pid):
            # closed meanwhile
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
    return {name for name in found if name.startswith("socket:")}


def _tell(fd: int, message: Dict[str, Any]) -> None:
    if fd >= 0:
        os.write(fd, json.dumps(message).encode())
        os.close(fd)


TICK = 0.5  # seconds


class Loader:
    """A process that holds a compiled model and its workers.

    Args:
        channel: to the supervisor; its end is the end of this process.
        listener: the model's socket.
        memory: descriptor of the workers' slots.
        wanted: what the model was opened with.
    """

    def __init__(self, channel: socket.socket, listener: socket.socket, memory: int, wanted: Any) -> None:
        self._channel, self._wanted = channel, wanted
        self._crew = Crew(wanted, listener, Slots(memory), self._say)
        self._finishing = False

    def run(self) -> None:
        """Load, serve, and end this process."""
        spec = self._wanted["spec"]
        sandbox.set_title("dbinfer-engine", "loader of %s@%s" % (spec["model"], spec["version"]))
        wakes = self._hear_of_deaths()
        # the supervisor closes the channel when nobody waits for this model any more, which ends a trial
        interrupts.heed(lambda: sandbox.hung_up(self._channel.fileno()))
        try:
            facts = self._load()
        except Exception as err:
            self._say({"error": protocol.describe_error(err)})
            os._exit(0)
        self._say({"facts": facts, "pid": os.getpid()})
        self._crew.tick()
        while not self._finishing or self._crew.pids:
            self._step(wakes)
        os._exit(0)

    def _hear_of_deaths(self) -> int:
        wakes, wake = os.pipe2(os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        return wakes

    def _load(self) -> Dict[str, Any]:
        sandbox = shut_in_loader(self._wanted["folder"], self._wanted["spec"]["settings"])
        threads = threads_after_trial(self._wanted)
        if threads != self._wanted["threads"]:
            # the number of workers and what they share depend on it, so another loader begins anew
            self._say({"threads": threads})
            os._exit(0)
        granted = None
        # a fork lacks the threads that OpenVINO has started, and would wait for them; so it is with drivers
        if threads == 1 and device_of(self._wanted) == devices.CPU:
            model, facts = load_tried(self._wanted)
            granted = rehearse(model, self._wanted, self._crew.seconds())
        if granted is None:
            facts = self._crew.first()
            granted = facts["sandbox"]
        else:
            self._crew.model, self._crew.filters = model, granted["filter"]
        # what a worker reports of a guard replaces what the loader found
        facts["sandbox"] = {**sandbox, **granted}
        self._crew.rows = facts["rows"]
        return facts

    def _say(self, message: Dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps(message).encode())

    def _step(self, wakes: int) -> None:
        ready = select.select([self._channel.fileno(), wakes], [], [], TICK)[0]
        if wakes in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wakes, 4096)
        if self._channel.fileno() in ready:
            self._hear()
        self._crew.tick()

    def _hear(self) -> None:
        data = self._channel.recv(1 << 16)
        if not data:
            # the supervisor has ended, or wants this process to end at once; the workers die with it
            os._exit(0)
        message = json.loads(data)
        if "workers" in message:
            self._crew.most = message["workers"]
        if "cancel" in message:
            self._crew.cancel(bytes.fromhex(message["cancel"]))
        if "finish" in message:
            self._finishing = True
            self._crew.finish()
