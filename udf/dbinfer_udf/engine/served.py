"""One model as the supervisor sees it: its sockets, its loader's channel, who waits for it, and how its requests
ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Tuple

from ..errors import PUBLIC, EngineError, RowError
from ..host import limits, protocol, sandbox
from ..host.cache import is_fast
from ..model.trial import Limits
from . import slots

BACKLOG = 4096  # the kernel cuts it to net.core.somaxconn


def listen_at(path: str) -> socket.socket:
    """Return a socket that listens at a path; one that a killed engine left is removed."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(BACKLOG)
    return listener


MOST = 1000


class Ends:
    """The last ends of one model's requests."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Dict[str, str]] = OrderedDict()

    def note(self, request: str, why: Dict[str, str]) -> None:
        """Keep the reason why a request (in hex; "" for none) ended."""
        if request:
            self._known[request] = why
            while len(self._known) > MOST:
                self._known.popitem(last=False)

    def of(self, request: str) -> Optional[Dict[str, str]]:
        """Return why a request ended; None where nothing is known."""
        return self._known.get(request)


def fork_loader(
    supervisor: Any, wanted: Dict[str, Any], listener: socket.socket, memory: int
) -> socket.socket:
    """Return the channel to a new loader; its end is the loader's end.

    Args:
        wanted: what the model was opened with.
        listener: the model's socket.
        memory: descriptor of the workers' slots.

    Raises:
        OSError: no process, or no descriptor, can be had.
    """
    shelf = supervisor.shelf
    # a setting may ask for more threads than the host has cores
    each = min(wanted["threads"], supervisor.cores)
    told = dict(wanted, semaphore=shelf.semaphore, permits=each)
    call = sandbox.memory_file("dbinfer-call", json.dumps(told).encode())
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fds = [theirs.fileno(), listener.fileno(), memory, call]
            shelf.zygotes.fork(wanted["spec"]["settings"], fds)
    finally:
        os.close(call)
    ours.setblocking(False)
    # the kernel names the sender, so that the loader's pid is not its own word
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours


MOST_RESTARTS, RESTART_SECONDS = 3, 30.0
MESSAGE = 1 << 20
MOST_MESSAGES = 100  # read at once: a loader that was taken over may send without end
CREDENTIALS = struct.Struct("=iII")


class Served:
    """A model that loads, is loaded, or leaves.

    Attributes:
        facts: what its loader found; None while it loads.
        passing: it is fast and serves only the first rows of sessions, for which one worker is enough.
        used: when it was last asked for.
    """

    def __init__(self, supervisor: Any, shelf: Any, key: str, wanted: Dict[str, Any]) -> None:
        self.key = key
        self.title = "Model %s@%s" % (wanted["spec"]["model"], wanted["spec"]["version"])
        self.facts: Optional[Dict[str, Any]] = None
        self._supervisor, self._shelf, self.wanted = supervisor, shelf, wanted
        self._waiting: List[Any] = []
        self._ends = Ends()
        self._restarts: List[float] = []
        self._worker_restarts = 0
        self._signs = 0
        self.used = time.monotonic()
        self._path = supervisor.place.model(key)
        self.listener: Optional[socket.socket] = listen_at(self._path)
        self.passing = True
        self._most = max(1, limits.cores() // max(1, wanted["threads"]))
        self._memory = slots.make_slots(self._most)
        self.slots = slots.Slots(self._memory)
        self._channel: Optional[socket.socket] = None
        try:
            self._start()
        except OSError:
            self.close({})
            raise

    def _start(self) -> None:
        """Fork a loader, which loads the model and serves its socket."""
        self.facts, self.pid = None, 0
        bounds = Limits.from_settings(self.wanted["spec"]["settings"])
        # time for a trial, for the compilation, for that of a batch, and for the images of the trial
        self._until = time.monotonic() + 4 * bounds.start_seconds + 10 * bounds.image_seconds
        assert self.listener is not None
        self._channel = fork_loader(self._supervisor, self.wanted, self.listener, self._memory)
        self._supervisor.watch(self._channel, self._read)

    @property
    def workers(self) -> int:
        """Number of workers."""
        return 1 if self.passing else self._most

    def serve_all(self) -> None:
        """Keep enough workers for all rows of this model, however fast it is."""
        if self.passing:
            self.passing = False
            self._send({"workers": self.workers})

    def reachable(self) -> bool:
        """Return whether a socket lies where its requests go: somebody may tidy up the folder."""
        return os.path.exists(self._path)

    def ask(self, question: Any) -> None:
        """Answer a question as soon as the model is loaded."""
        self.used = time.monotonic()
        if self.facts is None:
            self._waiting.append(question)
        else:
            question.answer({"path": self._path, "key": self.key, "facts": self.facts})

    def _read(self) -> None:
        """Read one message of the loader, or its end."""
        try:
            data, pid = _message_of_loader(self._channel) if self._channel else (b"", 0)
            message = protocol.bounded(json.loads(data)) if data else None
        except BlockingIOError:
            return
        except (OSError, ValueError, RecursionError, protocol.ClosedError):
            message = None
        # anything but a message of ours counts as the end of the loader
        if isinstance(message, dict):
            self._take(message, pid)
        else:
            self._loader_ended()

    def _take(self, message: Dict[str, Any], pid: int) -> None:
        if "facts" in message:
            self.facts, self.pid = _bounded_facts(message["facts"], self.wanted), pid
            self._supervisor.log.say("%s is loaded: %s." % (self.title, json.dumps(self.facts)))
            if not is_fast(self.facts["infer_milliseconds"]):
                self.passing = False
            self._send({"workers": self.workers})
            waiting, self._waiting = self._waiting, []
            for question in waiting:
                self.ask(question)
            self._shelf.loaded()
        elif "threads" in message:
            self._take_threads(message["threads"])
        elif "error" in message:
            message["error"] = protocol.bounded_error(message["error"])
            self._supervisor.log.say("%s was not loaded: %s." % (self.title, message["error"]["message"]))
            self.close(message["error"])
        elif "died" in message:
            self._worker_restarts += 1
            self._note(
                protocol.harmless_text(message["died"])[:16], protocol.bounded_error(message.get("why"))
            )

    def _take_threads(self, number: Any) -> None:
        """Load the model for fewer threads: its trial says that more do not pay."""
        if isinstance(number, int) and 1 <= number < self.wanted["threads"]:
            waiting, self._waiting = self._waiting, []
            self.close({})
            self._shelf.fits(self.wanted, number, waiting)

    def _note(self, request: str, why: Dict[str, str]) -> None:
        self._supervisor.log.say("%s: %s." % (self.title, why["message"]))
        self._ends.note(request, why)

    def _loader_ended(self) -> None:
        """Start another loader, which serves the requests that wait; those that ran are lost with the old one."""
        self._drop_channel()
        for request in self.slots.running():
            killed = RowError("the worker that scored this image was killed, with all others of this model")
            self._note(request.hex(), protocol.describe_error(killed))
        for number in range(self._most):
            self.slots.clear(number, self.slots.read(number).since > 0)
        now = time.monotonic()
        self._restarts = [*[at for at in self._restarts if now - at < RESTART_SECONDS], now]
        if self.listener is None:
            self.close({})
        elif len(self._restarts) > MOST_RESTARTS:
            often = "the engine's processes of this model end again and again"
            hint = "See the engine's log: %s" % self._supervisor.log.path
            self.close(protocol.describe_error(EngineError(often, hint=hint, public=PUBLIC)))
        else:
            self._supervisor.log.say("%s has lost its loader, and gets another." % self.title)
            try:
                self._start()
            except OSError as err:
                self.close(
                    protocol.describe_error(
                        EngineError("the engine cannot load the model: %s" % err.strerror)
                    )
                )

    def _drop_channel(self) -> None:
        if self._channel is not None:
            self._supervisor.forget(self._channel)
            self._channel.close()
            self._channel = None

    def _send(self, message: Dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            if self._channel is not None:
                self._channel.send(json.dumps(message).encode())

    def _stop_listening(self) -> None:
        if self.listener is not None:
            self.listener.close()
            self.listener = None
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def finish(self) -> None:
        """Let the workers score what waits, and end."""
        self._stop_listening()
        self._send({"finish": True})

    def close(self, error: Dict[str, str]) -> None:
        """End now; whoever waits gets the error. The processes end with their channel."""
        self._stop_listening()
        self._drop_channel()
        if self._memory >= 0:
            os.close(self._memory)
        self._memory = -1
        waiting, self._waiting = self._waiting, []
        for question in waiting:
            question.answer({"error": error})
        self._shelf.gone(self)

    def cancel(self, request: str) -> None:
        """Tell the loader that nobody waits for this request."""
        self._send({"cancel": request})

    def runs(self, request: str) -> bool:
        """Return whether the request is in a slot."""
        return request in [running.hex() for running in self.slots.running()]

    def death(self, request: str) -> Optional[Dict[str, str]]:
        """Return the error of a request whose worker died."""
        for _ in range(MOST_MESSAGES):
            if self._channel is None or not self._waits():
                break
            self._read()
        return self._ends.of(request)

    def _waits(self) -> bool:
        try:
            return bool(self._channel and self._channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def tick(self) -> None:
        """Note signs of life; give up a load that takes too long or for which nobody waits any more."""
        signs = sum(state.requests for state in self.slots.all())
        if signs != self._signs:
            self._signs, self.used = signs, time.monotonic()
            self._supervisor.sign_of_life()
        gone = [question for question in self._waiting if question.given_up()]
        for question in gone:
            self._waiting.remove(question)
            question.close()
        if gone and not self._waiting:
            self._supervisor.log.say("%s is given up: nobody waits for it any more." % self.title)
            self.close({})
        elif self.facts is None and time.monotonic() > self._until:
            late = "the engine needs too long to load the model"
            self.close(protocol.describe_error(EngineError(late, hint="Set max_compile_seconds higher.")))

    def busy(self) -> bool:
        """Return whether it loads or a request runs."""
        return self.facts is None or bool(self.slots.running())

    def restarts(self) -> int:
        """Return how many workers and loaders were replaced."""
        return self._worker_restarts + len(self._restarts)


def _message_of_loader(channel: socket.socket) -> Tuple[bytes, int]:
    """Return a message of the loader and the sender's process, as the kernel names it."""
    data, more, _, _ = channel.recvmsg(MESSAGE, socket.CMSG_SPACE(CREDENTIALS.size))
    found = [CREDENTIALS.unpack(value)[0] for _, kind, value in more if kind == socket.SCM_CREDENTIALS]
    return data, found[0] if found else 0


def _bounded_facts(said: Any, wanted: Dict[str, Any]) -> Dict[str, Any]:
    """Return what a loader said of its model, with the values on which backends rely within bounds."""
    found = said if isinstance(said, dict) else {}
    limits_of = {"rows": wanted["rows"], "result_bytes": protocol.MOST_BYTES}
    for name, most in limits_of.items():
        value = found.get(name)
        found[name] = min(max(1, value), most) if isinstance(value, int) else 1
    for name in ("compile_milliseconds", "infer_milliseconds", "batch_milliseconds"):
        found[name] = found.get(name) if isinstance(found.get(name), (int, float)) else None
    sandbox = found.get("sandbox")
    return dict(found, threads=wanted["threads"], sandbox=sandbox if isinstance(sandbox, dict) else {})
