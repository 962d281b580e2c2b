"""The host of one model: shuts itself in, loads the model, keeps its workers, and hears the supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from typing import Any, Dict

from .. import interrupts
from . import kernel, loading, wire
from .crew import Crew
from .rehearsal import rehearse
from .slots import Slots

TICK = 0.5  # seconds


class Host:
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
        kernel.set_title("dbinfer-engine", "host of %s@%s" % (spec["model"], spec["version"]))
        wakes = self._hear_of_deaths()
        # the supervisor closes it where nobody waits for this model any more, which ends a trial
        interrupts.heed(lambda: kernel.hung_up(self._channel.fileno()))
        try:
            facts = self._load()
        except Exception as err:
            self._say({"error": wire.describe(err)})
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
        sandbox = loading.shut_in(self._wanted["folder"], self._wanted["spec"]["settings"])
        threads = loading.tried(self._wanted)
        if threads != self._wanted["threads"]:
            # how many workers there are, and what they share, follows from it: another host begins anew
            self._say({"threads": threads})
            os._exit(0)
        granted = None
        # a fork has none of the threads that OpenVINO has started, and would wait for them
        if threads == 1:
            model, facts = loading.load(self._wanted)
            granted = rehearse(model, self._wanted, self._crew.seconds())
        if granted is None:
            facts = self._crew.first()
            granted = facts["sandbox"]
        else:
            self._crew.model, self._crew.filters = model, granted["filter"]
        # what a worker says of a guard says also of the host's
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
            # the supervisor has ended, or wants an end at once; the workers die with this process
            os._exit(0)
        message = json.loads(data)
        if "workers" in message:
            self._crew.most = message["workers"]
        if "cancel" in message:
            self._crew.cancel(bytes.fromhex(message["cancel"]))
        if "finish" in message:
            self._finishing = True
            self._crew.finish()
