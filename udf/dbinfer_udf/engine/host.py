"""The host of one model: loads it, forks the workers, replaces those that die, and says why they died."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any, Dict, List, Optional

from ..trial import Limits
from . import kernel, wire
from .deaths import why
from .slots import Slots

TICK = 1.0
CANCEL_SECONDS = 0.5  # a request that nobody waits for may take so long before its worker is killed
LATE_SECONDS = 5.0  # beyond the limit, where the timer did not end a worker
MOST_DEATHS, DEATH_SECONDS, REST_SECONDS = 5, 1.0, 1.0


class Host:
    """A process that holds a compiled model and its workers.

    Args:
        channel: to the supervisor; its end is the end of this process.
        listener: the model's socket.
        memory: descriptor of the workers' slots.
        wanted: what the model was opened with.
    """

    def __init__(self, channel: socket.socket, listener: socket.socket, memory: int, wanted: Any) -> None:
        self._channel, self._listener, self._wanted = channel, listener, wanted
        self._slots = Slots(memory)
        self._model: Any = None
        self._sandbox: Dict[str, Any] = {}
        self._pids: Dict[int, int] = {}
        self._deaths: List[float] = []
        self._cancelled: Dict[bytes, float] = {}
        self._rests_until = 0.0
        self._finishing = False

    def run(self) -> None:
        """Load, serve, and end this process."""
        spec = self._wanted["spec"]
        self._title = "%s@%s" % (spec["model"], spec["version"])
        kernel.set_title("dbinfer-engine", "host of %s" % self._title)
        wakes = self._hear_of_deaths()
        try:
            facts = self._load()
        except Exception as err:
            self._say({"error": wire.describe(err)})
            os._exit(0)
        for number in range(len(self._slots)):
            self._fork(number)
        self._say({"facts": facts})
        while not self._finishing or self._pids:
            self._step(wakes)
        os._exit(0)

    def _hear_of_deaths(self) -> int:
        wakes, wake = os.pipe2(os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        return wakes

    def _load(self) -> Dict[str, Any]:
        from . import loading

        self._sandbox = loading.shut_in(self._wanted["folder"], self._wanted["spec"]["settings"])
        self._model, facts = loading.load(self._wanted)
        facts["sandbox"] = self._sandbox
        return facts

    def _say(self, message: Dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps(message).encode())

    def _fork(self, number: int) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._be_worker(parent, number)
        self._pids[pid] = number

    def _be_worker(self, parent: int, number: int) -> None:
        """Be the child; never return."""
        try:
            from . import worker

            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            kernel.die_with(parent)
            kernel.set_title("dbinfer-worker", self._title)
            kernel.close_all_but([self._listener.fileno()])
            slot = self._slots.slot(number)
            serving = worker.Worker(self._model, self._wanted, self._listener, slot)
            worker.shut_in()
            serving.run()
            os._exit(0)
        except BaseException as err:
            os.write(2, ("a worker of %s ends: %r\n" % (self._title, err)).encode())
        finally:
            os._exit(1)

    def _step(self, wakes: int) -> None:
        ready = select.select([self._channel.fileno(), wakes], [], [], TICK)[0]
        if wakes in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wakes, 4096)
        if self._channel.fileno() in ready:
            self._hear()
        self._reap()
        self._end_those_too_long()
        self._fill()

    def _hear(self) -> None:
        data = self._channel.recv(1 << 16)
        if not data:
            # the supervisor has ended, or wants an end at once; the workers die with this process
            os._exit(0)
        message = json.loads(data)
        if "cancel" in message:
            self._cancelled[bytes.fromhex(message["cancel"])] = time.monotonic()
        if "finish" in message:
            self._finishing = True
            for pid in self._pids:
                os.kill(pid, signal.SIGTERM)

    def _reap(self) -> None:
        while self._pids:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            number = self._pids.pop(pid, None)
            if number is not None:
                self._bury(number, status)

    def _bury(self, number: int, status: int) -> None:
        state = self._slots.read(number)
        if not (self._finishing and status == 0):
            request = state.request.hex() if state.since else ""
            # before the slot is cleared: who finds it empty finds the reason
            settings, rows = self._wanted["spec"]["settings"], self._wanted["rows"]
            self._say({"died": request, "why": wire.describe(why(status, settings, rows))})
        self._slots.clear(number, state.since > 0)
        self._deaths = [*self._deaths[1 - MOST_DEATHS :], time.monotonic()]

    def _fill(self) -> None:
        """Fork workers for those that have died, a little later where they die at once."""
        now = time.monotonic()
        if len(self._deaths) == MOST_DEATHS and now - self._deaths[0] < DEATH_SECONDS:
            self._rests_until, self._deaths = now + REST_SECONDS, []
        if not self._finishing and now >= self._rests_until:
            for number in set(range(len(self._slots))) - set(self._pids.values()):
                self._fork(number)

    def _end_those_too_long(self) -> None:
        now = time.monotonic()
        seconds = self._limit() + LATE_SECONDS
        for pid, number in self._pids.items():
            state = self._slots.read(number)
            asked: Optional[float] = self._cancelled.get(state.request) if state.since else None
            unwanted = asked is not None and now - asked > CANCEL_SECONDS
            if unwanted or (state.since and now - state.since > seconds):
                os.kill(pid, signal.SIGKILL)
        self._cancelled = {r: at for r, at in self._cancelled.items() if now - at < seconds}

    def _limit(self) -> float:
        rows: int = self._wanted["rows"]
        return Limits.from_settings(self._wanted["spec"]["settings"]).image_seconds * rows
