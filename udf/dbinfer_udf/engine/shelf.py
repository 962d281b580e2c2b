"""The models of an engine: which are loaded or load, which goes when memory is short, and what their processes
take.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import struct
import sys
import time
import traceback
from typing import Any, Dict, List, Tuple

from ..errors import EngineError
from ..host import protocol, sandbox
from ..host.image_limits import image_limits
from ..host.libraries import site_packages
from ..host.limits import memory_bytes
from . import isolation
from .hosted import Hosted
from .models import DEFAULT_MAX_MODELS

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, REQUEST = 4, 20, 1
SHOW_QUEUE, QUEUE, ANY_COOKIE = 0x10, 4, 0xFFFFFFFF
HEADER = struct.Struct("=IHHII")
ASKED = struct.Struct("=BBHIIIII")
ANSWER_BYTES = 16


def memory_of(pid: int) -> int:
    """Return the bytes of a process and its children, each page counted by its share; 0 where that is not known."""
    return sum(_share(one) for one in [pid, *_children(pid)])


def _share(pid: int) -> int:
    try:
        with open("/proc/%d/smaps_rollup" % pid) as rollup:
            return next((int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def _children(pid: int) -> List[int]:
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as children:
            return [int(word) for word in children.read().split()]
    except OSError:
        return []


def queue_of(listener: Any) -> int:
    """Return how many connections wait to be accepted; 0 where the kernel does not say."""
    inode = os.fstat(listener.fileno()).st_ino
    body = ASKED.pack(socket.AF_UNIX, 0, 0, ANY_COOKIE, inode, SHOW_QUEUE, ANY_COOKIE, ANY_COOKIE)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asks:
            asks.settimeout(1.0)
            asks.send(HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, REQUEST, 0, 0) + body)
            return _queue(asks.recv(4096)[HEADER.size + ANSWER_BYTES :])
    except OSError:
        return 0


def _queue(attributes: bytes) -> int:
    while len(attributes) >= 8:
        size, kind = struct.unpack_from("=HH", attributes)
        if kind == QUEUE:
            return int(struct.unpack_from("=I", attributes, 4)[0])
        attributes = attributes[max(4, (size + 3) & ~3) :]
    return 0


def memory(pid: int) -> int:
    """Return the bytes of a host and its workers; 0 where it is not there."""
    return memory_of(pid) if pid else 0


def facts(model: Any) -> Dict[str, Any]:
    """Return what `dbinfer engine status` shows of a Hosted."""
    states = model.slots.all()
    spec, loaded = model.wanted["spec"], model.facts
    return {
        "model": spec["model"],
        "version": spec["version"],
        "key": model.key,
        "rows": model.wanted["rows"],
        "threads": model.wanted["threads"],
        "bytes": memory(model.pid),
        "workers": model.workers,
        "requests": sum(state.requests for state in states),
        "errors": sum(state.errors for state in states),
        "restarts": model.restarts(),
        "running": sum(state.since > 0 for state in states),
        "queue": queue_of(model.listener) if model.listener else 0,
        "state": "loading" if loaded is None else "ready",
        "sandbox": (loaded or {}).get("sandbox", {}),
    }


class Zygotes:
    """Processes that have imported the libraries and fork hosts."""

    def __init__(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        # OpenCV takes its limit of pixels once, at its import; a venv that has changed must be imported anew
        self._known: Dict[Tuple[str, int, int], Tuple[int, socket.socket]] = {}

    def fork(self, settings: Dict[str, str], fds: List[int]) -> None:
        """Have a host forked, which gets these descriptors."""
        venv = settings.get("venv", "")
        key = venv, image_limits(settings).max_pixels, _state(venv)
        for _ in range(2):
            if key not in self._known:
                self._known[key] = self._make(*key)
            channel = self._known[key][1]
            try:
                socket.send_fds(channel, [b"host"], fds)
                return
            except OSError:  # it was killed
                self._drop(key)
        raise OSError(32, "the engine's zygote ends as soon as it has started")

    def _make(self, venv: str, max_pixels: int, state: int) -> Tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _be_zygote(parent, theirs, venv, max_pixels)
        theirs.close()
        self._supervisor.watch(ours, lambda: self._drop((venv, max_pixels, state)))
        return pid, ours

    def _drop(self, key: Tuple[str, int, int]) -> None:
        """End a zygote. It says nothing: its channel is readable when it has ended already."""
        if key not in self._known:
            return
        pid, channel = self._known.pop(key)
        self._supervisor.forget(channel)
        channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def kill(self) -> None:
        """End all, and with them the hosts and workers."""
        for key in list(self._known):
            self._drop(key)


def _state(venv: str) -> int:
    """Return when packages of a venv were installed last; 0 where there is none."""
    try:
        return os.stat(site_packages(venv, "%d.%d" % sys.version_info[:2])).st_mtime_ns
    except OSError:
        return 0


def _be_zygote(parent: int, channel: socket.socket, venv: str, max_pixels: int) -> None:
    """Be the child; never return."""
    try:
        sandbox.die_with(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sandbox.set_title("dbinfer-engine", "zygote of %s" % (venv or "no virtual environment"))
        from . import zygote

        zygote.run(channel, venv, max_pixels)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


VERDICT_SECONDS = 3.0  # until a dead worker's host has said why
DRAIN_SECONDS = 60.0
# Settings that decide neither on a result nor on a limit; segments of one host differ in the first
OTHERS = (
    "cache_dir",
    "cache_limit_mb",
    "workers",
    "isolation",
    "max_models",
    "default_model",
    "version",
    "hosts",
    "usage",
)


def key_of(wanted: Dict[str, Any]) -> str:
    """Return the key of a model: all that decides on results and limits, and not where its files lie."""
    spec = wanted["spec"]
    settings = {
        name: value
        for name, value in spec["settings"].items()
        if name not in OTHERS and not name.startswith(("engine_", "segments@"))
    }
    # where it runs is what brought the model here, and nothing more
    spec = {name: value for name, value in spec.items() if name != "isolation"}
    decides = [dict(spec, settings=settings), wanted["threads"], wanted["rows"]]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _name(wanted: Dict[str, Any]) -> str:
    return key_of(dict(wanted, threads=0, rows=0))


class Shelf:
    """All models of one engine.

    Args:
        supervisor: whose loop watches them.
        semaphore: number of the tokens' set.
    """

    def __init__(self, supervisor: Any, semaphore: int) -> None:
        self._supervisor = supervisor
        self.semaphore = semaphore
        self.models: Dict[str, Hosted] = {}
        # by the key of a model without its threads: how many of them pay, where that is fewer than somebody wanted
        self._paying: Dict[str, int] = {}
        self._leaving: List[Hosted] = []
        # (question, model, request in hex, until): requests whose worker dies just now
        self._open_verdicts: List[Tuple[Any, Hosted, str, float]] = []
        self.zygotes = Zygotes(supervisor)

    @property
    def hurry(self) -> bool:
        """Return whether somebody waits for what no descriptor will tell."""
        return bool(self._open_verdicts)

    def open(self, question: Any, wanted: Dict[str, Any]) -> None:
        """Answer with the model's path and facts, now or when it is loaded; it takes the wanted threads, or fewer."""
        most = self._paying.get(_name(wanted), wanted["threads"])
        self._open(question, dict(wanted, threads=min(wanted["threads"], most)))

    def fits(self, wanted: Dict[str, Any], threads: int, questions: List[Any]) -> None:
        """Open a model for so many threads, from now on and for those who wait for it."""
        self._paying[_name(wanted)] = threads
        for question in questions:
            self._open(question, dict(wanted, threads=threads))

    def _open(self, question: Any, wanted: Dict[str, Any]) -> None:
        key = key_of(wanted)
        model = self.models.get(key)
        if model is None:
            self._make_room()
            model = self.models[key] = Hosted(self._supervisor, self, key, wanted)
        if isolation.wanted(wanted["spec"]) == isolation.ALWAYS:
            model.serve_all()
        # taken out and put back, so that the dict is in the order of use
        self.models[key] = self.models.pop(key)
        model.ask(question)

    def gone(self, model: Hosted) -> None:
        """Forget a model that failed or has ended."""
        if self.models.get(model.key) is model:
            del self.models[model.key]
        if model in self._leaving:
            self._leaving.remove(model)

    def _make_room(self) -> None:
        """Let the models go that were not used for longest, until all take less than `engine_memory_mb`."""
        settings = self._supervisor.settings
        limit = int(settings.get("engine_memory_mb", memory_bytes() >> 21)) << 20
        sizes = {key: memory(model.pid) for key, model in self.models.items()}
        order = sorted(self.models.values(), key=lambda model: model.used)
        for model in order:
            if sum(sizes[key] for key in self.models if key in sizes) < limit:
                return
            if model.facts is not None:
                self._supervisor.log.say("%s goes: all models together take too much memory." % model.title)
                self._let_go(model)

    def loaded(self) -> None:
        """Keep as many fast models for first rows as a session keeps loaded, those that were used last.

        Each takes two processes and some 20 MB.
        """
        most = max(1, int(self._supervisor.settings.get("max_models", DEFAULT_MAX_MODELS)))
        passing = [model for model in self.models.values() if model.passing and model.facts is not None]
        for model in sorted(passing, key=lambda one: one.used)[:-most]:
            self._supervisor.log.say("%s goes: %d others serve first rows of sessions." % (model.title, most))
            self._let_go(model)

    def _let_go(self, model: Hosted) -> None:
        del self.models[model.key]
        self._leaving.append(model)
        model.finish()

    def verdict(self, question: Any, message: Dict[str, Any]) -> None:
        """Answer what became of a request: an error, or nothing where it never began."""
        for model in [*self.models.values(), *self._leaving]:
            if model.key == message["key"]:
                until = time.monotonic() + VERDICT_SECONDS
                self._open_verdicts.append((question, model, message["request"], until))
                self._judge()
                return
        question.answer({})

    def _judge(self) -> None:
        for entry in list(self._open_verdicts):
            question, model, request, until = entry
            # first the slots: a host says why before it clears the slot
            runs = model.runs(request)
            found = model.death(request)
            if found is not None or not runs or time.monotonic() > until:
                self._open_verdicts.remove(entry)
                question.answer({"error": found} if found else {})

    def cancel(self, question: Any, message: Dict[str, Any]) -> None:
        """End the worker of a request that nobody waits for, if it goes on for long."""
        model = self.models.get(message["key"])
        if model is not None:
            model.cancel(message["request"])
        question.close()

    def release(self, question: Any, message: Dict[str, Any]) -> None:
        """Let a model go that was opened only to learn how fast it is; not where others use it."""
        model = self.models.get(message["key"])
        if model is not None and model.facts is not None and not facts(model)["requests"]:
            self._let_go(model)
        question.close()

    def tick(self) -> None:
        """Do what time brings: verdicts, and models that load for too long."""
        self._judge()
        for model in [*self.models.values(), *self._leaving]:
            model.tick()

    def busy(self) -> bool:
        """Return whether a request runs or a model loads; a request also counts as a sign of life."""
        return any(model.busy() for model in self.models.values())

    def facts(self) -> List[Dict[str, Any]]:
        """Return the facts of each model."""
        return [facts(model) for model in self.models.values()]

    def finish(self) -> None:
        """Take no more rows; those in the queue are still scored."""
        for model in list(self.models.values()):
            self._let_go(model)

    def drain(self, step: Any) -> None:
        """Wait until all have finished, at most as long as a request may take."""
        until = time.monotonic() + DRAIN_SECONDS
        while self._leaving and time.monotonic() < until:
            step()

    def kill(self) -> None:
        """End all processes at once."""
        for model in [*self.models.values(), *self._leaving]:
            model.close(protocol.describe(_ended()))
        self.zygotes.kill()


def _ended() -> Exception:
    return EngineError("the engine has ended", hint="Run the statement again.")
