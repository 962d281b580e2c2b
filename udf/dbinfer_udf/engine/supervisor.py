"""The supervisor: answers the control socket, keeps models and servers, and ends all when nobody needs it.

Standard library only; no image and no model file passes through it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import traceback
from typing import Any, Callable, Dict, Tuple

from .. import limits
from ..errors import UdfError
from . import tokens, wire
from .address import Address
from .errors import EngineError
from .guards import guards, missing
from .log import Log
from .loop import Loop
from .measure import memory_of
from .questions import Question, Questions
from .servers import Servers
from .shelf import Shelf

TICK = 1.0  # seconds
IDLE_SECONDS = 600


class Supervisor:
    """The engine's first process; see docs/design.md.

    Args:
        call: what start.call_of made.
        listener: the control socket.
    """

    def __init__(self, call: Dict[str, Any], place: Address, listener: socket.socket, log: Log) -> None:
        self.call = call
        self.place = place
        self.log = log
        # the latest that are known: a changed setting holds from the next model that is opened
        self.settings: Dict[str, str] = call["settings"]
        self.service = not call["server"]
        self.began = time.time()
        self.servers = Servers()
        self.ending = False
        self._loop = Loop(log)
        self.watch, self.forget = self._loop.watch, self._loop.forget
        self.own_output = self._loop.own_output
        self._questions = Questions(self, listener, self._reply)
        self._pidfds: Dict[int, int] = {}
        self._last_sign = time.monotonic()
        self.cores = limits.cores()
        self._guards = guards()
        self._semaphore = tokens.make(tokens.key_of(place.control), self.cores)
        self.shelf = Shelf(self, self._semaphore)

    def run(self, lock: int) -> None:
        """Work until nobody needs the engine, or it is told to go."""
        self._loop.hear_signals()
        self._attach(self.call["server"])
        self.log.say(
            "Engine %s starts with %d cores, process %d." % (self.place.digest, limits.cores(), os.getpid())
        )
        if missing(self._guards):
            self.log.say(missing(self._guards))
        try:
            while not self.ending:
                self._step()
            os.close(lock)
            self.shelf.drain(self._step)
        finally:
            self.shelf.kill()
            tokens.remove(self._semaphore)
            self.log.say("Engine %s has ended." % self.place.digest)

    def _step(self) -> None:
        self._loop.turn(TICK / 10 if self.shelf.hurry else TICK)
        if self._loop.told:
            self.finish("Told to stop, by a signal.")
        self.shelf.tick()
        now = time.monotonic()
        self._questions.tick()
        alive = self.servers.look()
        self._watch_servers()
        if self.service:
            return
        if not alive:
            self.shelf.kill()
            self.finish("The server has ended.")
        elif now - self._last_sign > self._idle_seconds() and not self.shelf.busy():
            self.finish("Nobody has asked for %d seconds." % self._idle_seconds())

    def _idle_seconds(self) -> float:
        return float(self.settings.get("engine_idle_seconds", IDLE_SECONDS))

    def sign_of_life(self) -> None:
        """Note that somebody uses the engine."""
        self._last_sign = time.monotonic()

    def finish(self, why: str) -> None:
        """Take no more; what runs may end. `why` is for the log, and is said once."""
        if not self.ending:
            self.log.say(why)
            self.ending = True
            self._questions.stop()
            with contextlib.suppress(OSError):
                os.unlink(self.place.control)
            self.shelf.finish()

    def _attach(self, server: int) -> None:
        if server:
            self.servers.add(server)
        self._watch_servers()

    def _watch_servers(self) -> None:
        for fd in self._pidfds.keys() - self.servers.fds().keys():
            self.forget(fd)
        for fd in self.servers.fds().keys() - self._pidfds.keys():
            # its end wakes the loop, which looks
            self.watch(fd, lambda: None)
        self._pidfds = self.servers.fds()

    def _reply(self, question: Question, message: Dict[str, Any]) -> None:
        answers: Dict[str, Tuple[Callable[..., Any], Tuple[Any, ...]]] = {
            "open": (self._open, (question, message)),
            "verdict": (self.shelf.verdict, (question, message)),
            "cancel": (self.shelf.cancel, (question, message)),
            "release": (self.shelf.release, (question, message)),
            "status": (lambda: question.answer(self.facts()), ()),
            "stop": (self._stop, (question,)),
            "hello": (lambda: question.answer({}), ()),
        }
        found = answers.get(str(message.get("op")))
        if found is None:
            question.close()
            return
        try:
            found[0](*found[1])
        except Exception as err:
            # a bug here must not end what others use
            if not isinstance(err, UdfError):
                self.log.say("Cannot answer %r: %s" % (message.get("op"), traceback.format_exc()))
            if isinstance(err, OSError):
                err = EngineError("the engine cannot load the model: %s" % err.strerror)
            question.answer({"error": wire.describe(err)})

    def _open(self, question: Question, message: Dict[str, Any]) -> None:
        self.sign_of_life()
        theirs, ours = message.pop("python"), list(sys.version_info[:2])
        if theirs != ours:
            # another server of this user: its packages cannot be imported here
            raise EngineError("the engine runs Python %d.%d, this server %d.%d" % (*ours, *theirs))
        self._attach(message.pop("server"))
        self.settings = {**self.settings, **message["spec"]["settings"]}
        self.shelf.open(question, message)

    def _stop(self, question: Question) -> None:
        self.finish("Told to stop.")
        question.answer({})

    def facts(self) -> Dict[str, Any]:
        """Return what `dbinfer engine status` shows."""
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "digest": self.place.digest,
            "uptime": round(time.time() - self.began, 1),
            "service": self.service,
            "sandbox": self._guards,
            "servers": sorted(self.servers.known),
            "cores": limits.cores(),
            "log": self.log.path,
            "models": self.shelf.facts(),
            # of this process and the zygotes, which no model has
            "own_bytes": memory_of(os.getpid()),
            "problem": "" if self._semaphore >= 0 else "no semaphores: threads may exceed the cores",
        }
