"""The supervisor's loop: waits for descriptors and signals, and calls who watches them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import traceback
from typing import Any, Callable

from .log import Log


class Loop:
    """Calls what watches a descriptor whenever there is something to read.

    Attributes:
        told: whether SIGTERM or SIGINT came.
    """

    def __init__(self, log: Log) -> None:
        self.told = False
        self._log = log
        self._selector = selectors.DefaultSelector()

    def watch(self, fd: Any, then: Callable[[], Any]) -> None:
        """Call `then` whenever there is something to read."""
        self._selector.register(fd, selectors.EVENT_READ, then)

    def forget(self, fd: Any) -> None:
        """Watch it no longer."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fd)

    def hear_signals(self) -> None:
        """Note SIGTERM and SIGINT, to be acted upon between two turns and not in the middle of something."""

        def tell(*_: Any) -> None:
            self.told = True

        wakes, wake = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.watch(wakes, lambda: os.read(wakes, 4096))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, tell)

    def own_output(self, with_standard_output: bool) -> None:
        """Let what this process and its children print go to the log, and nothing come in."""
        out, into = os.pipe()
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        if with_standard_output:
            os.dup2(into, 1)
        os.dup2(into, 2)
        os.close(into)
        os.close(nothing)
        self.watch(out, lambda: self._log.take(os.read(out, 65536)))

    def turn(self, seconds: float) -> None:
        """Wait so long at most, and call who is concerned."""
        for found, _ in self._selector.select(seconds):
            try:
                found.data()
            except Exception:
                # a bug must not end what others use
                self._log.say("Unexpected: %s" % traceback.format_exc())
