"""The workers of one model, in its host: forks them, replaces those that die, and ends those that take too long."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Set

from ..trial import Limits
from . import kernel, loading, rehearsal, wire, worker
from .deaths import why
from .errors import EngineError
from .slots import Slots

CANCEL_SECONDS = 0.5  # a request that nobody waits for may take so long before its worker is killed
# Beyond the limit of a request: to read it, to wait for tokens, to send the answer, and what a busy machine adds
LATE_SECONDS = 15.0
MOST_DEATHS, DEATH_SECONDS, REST_SECONDS = 5, 1.0, 1.0


class Crew:
    """The workers of a host.

    Attributes:
        most: as many workers are kept.
        model: what they inherit; None where each compiles for itself.
        filters: how strict a filter of system calls they can live with, one of worker.FILTERS.

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
        # of one inference: 1 where the network takes no more, which the first that loads it finds
        self.rows: int = wanted["rows"]
        self.most = 1
        self.model: Any = None
        self.filters = worker.NO_THREADS
        self.pids: Dict[int, int] = {}
        self._listens = "socket:[%d]" % os.fstat(listener.fileno()).st_ino
        # of each worker: the connections that it holds, as the kernel names them, and when they were seen first
        self._held: Dict[int, Dict[str, float]] = {}
        self._deaths: List[float] = []
        self._cancelled: Dict[bytes, float] = {}
        self._rests_until = 0.0
        self._finishing = False

    def first(self) -> Dict[str, Any]:
        """Fork a worker that compiles for itself, as all others will; return the facts of the model."""
        for self.filters in worker.FILTERS:
            found = self._first()
            if found:
                break
        if "facts" not in found:
            error = EngineError("the engine's worker ended while it loaded the model")
            raise wire.rebuild(found["error"]) if "error" in found else error
        facts: Dict[str, Any] = found["facts"]
        return facts

    def _first(self) -> Dict[str, Any]:
        """Return what the first worker found: `facts` or `error`; nothing where it died."""
        out, into = os.pipe()
        pid = self._fork(0, into)
        os.close(into)
        with os.fdopen(out) as said:
            found = _found(said.read())
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
        """Be the child; never return. `tells`: a descriptor for what was found, or -1."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            kernel.die_with(parent)
            kernel.set_title("dbinfer-worker", self._title)
            kernel.close_all_but([self._listener.fileno(), *([tells] if tells >= 0 else [])])
            slot = self._slots.slot(number)
            if self.model is None:
                model = self._load_own(tells)
            else:
                model = self.model
                worker.shut_in(self._wanted["semaphore"], self.filters)
            worker.Worker(model, self._wanted, self._listener, slot, self.seconds()).run()
            os._exit(0)
        except BaseException as err:
            os.write(2, ("A worker of %s ends: %r\n" % (self._title, err)).encode())
        finally:
            os._exit(1)

    def _load_own(self, tells: int) -> Any:
        """In a worker: load the model, and shut this process in; tell the host, where it waits, what was found."""
        try:
            model, facts = loading.load(self._wanted)
        except Exception as err:
            _tell(tells, {"error": wire.describe(err)})
            os._exit(1)
        self.rows = facts["rows"]
        # where the network cannot run so, this process dies, and the host hears nothing
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, self.seconds() + rehearsal.SECONDS)
        granted = rehearsal.run(model, self._wanted, self.filters)
        signal.setitimer(signal.ITIMER_REAL, 0)
        _tell(tells, {"facts": dict(facts, sandbox=dict(granted, compiled="by each worker"))})
        return model

    def tick(self) -> None:
        """Bury the dead, end who is late, and fill the places."""
        self._reap()
        self._end_those_too_long()
        self._fill()

    def finish(self) -> None:
        """Let all score what waits, and end."""
        self._finishing = True
        # for all who share it: a worker must not be able to do that itself
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
            reason = why(status, self.seconds(), self.rows)
            # before the slot is cleared: who finds it empty finds the reason
            self._say({"died": request, "why": wire.describe(reason)})
        self._slots.clear(number, state.since > 0)
        self._deaths = [*self._deaths[1 - MOST_DEATHS :], time.monotonic()]

    def _fill(self) -> None:
        """Fork workers for those that have died, a little later where they die at once."""
        now = time.monotonic()
        if len(self._deaths) == MOST_DEATHS and now - self._deaths[0] < DEATH_SECONDS:
            self._rests_until, self._deaths = now + REST_SECONDS, []
        if not self._finishing and now >= self._rests_until:
            for number in set(range(self.most)) - set(self.pids.values()):
                # too many processes: again a tick later
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
        """Return since when a worker holds its oldest connection, as the kernel and our clock say, not its slot."""
        before = self._held.get(pid, {})
        held = self._held[pid] = {
            name: before.get(name, now) for name in _sockets(pid) if name != self._listens
        }
        return min(held.values(), default=now)


def _found(text: str) -> Dict[str, Any]:
    """Return what a worker that compiles for itself has found: `facts` or `error`; nothing where it says neither."""
    try:
        said = wire.bounded(json.loads(text))
    except (ValueError, RecursionError, wire.ClosedError):
        return {}
    facts = said.get("facts", {"rows": 1, "sandbox": {}}) if isinstance(said, dict) else {}
    sound = (
        isinstance(facts, dict) and type(facts.get("rows")) is int and isinstance(facts.get("sandbox"), dict)
    )
    return said if sound else {}


def _sockets(pid: int) -> Set[str]:
    """Return the sockets that a process has open, each under a name of its own; none where /proc does not say."""
    found = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir("/proc/%d/fd" % pid):
            # one that it closes just now is not there any more
            with contextlib.suppress(FileNotFoundError):
                found.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
    return {name for name in found if name.startswith("socket:")}


def _tell(fd: int, message: Dict[str, Any]) -> None:
    if fd >= 0:
        os.write(fd, json.dumps(message).encode())
        os.close(fd)
