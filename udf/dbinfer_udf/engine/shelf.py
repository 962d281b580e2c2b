"""The models of an engine: which are loaded or being loaded, which go when memory is short, and what their processes
take.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
import time
from typing import Any, Dict, List, Tuple

from ..errors import EngineError
from ..host import protocol
from ..host.limits import memory_bytes
from .models import ALWAYS, DEFAULT_MAX_MODELS, wanted_isolation
from .served import Served
from .zygote import Zygotes

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, REQUEST = 4, 20, 1
SHOW_QUEUE, QUEUE, ANY_COOKIE = 0x10, 4, 0xFFFFFFFF
HEADER = struct.Struct("=IHHII")
ASKED = struct.Struct("=BBHIIIII")
ANSWER_BYTES = 16


def memory_of(pid: int) -> int:
    """Return the bytes of a process and its children, each page counted by its share; 0 where that is not known."""
    return sum(_memory_share(one) for one in [pid, *_children(pid)])


def _memory_share(pid: int) -> int:
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


def model_status(model: Any) -> Dict[str, Any]:
    """Return what `dbinfer engine status` shows of a Served."""
    states = model.slots.all()
    spec, loaded = model.wanted["spec"], model.facts
    return {
        "model": spec["model"],
        "version": spec["version"],
        "key": model.key,
        "rows": model.wanted["rows"],
        "threads": model.wanted["threads"],
        "bytes": memory_of(model.pid),
        "workers": model.workers,
        "requests": sum(state.requests for state in states),
        "errors": sum(state.errors for state in states),
        "restarts": model.restarts(),
        "running": sum(state.since > 0 for state in states),
        "queue": queue_of(model.listener) if model.listener else 0,
        "state": "loading" if loaded is None else "ready",
        "sandbox": (loaded or {}).get("sandbox", {}),
    }


VERDICT_SECONDS = 3.0  # until a dead worker's loader has said why
DRAIN_SECONDS = 60.0
# Settings on which neither a result nor a limit depends; segments of one host differ in the first
OTHERS = (
    "cache_dir",
    "cache_limit_mb",
    "image_cache_mb",
    "workers",
    "isolation",
    "max_models",
    "default_model",
    "version",
    "hosts",
    "usage",
)


def model_key(wanted: Dict[str, Any]) -> str:
    """Return the key of a model: a digest of all on which results and limits depend, but not of where its files lie."""
    spec = wanted["spec"]
    settings = {
        name: value
        for name, value in spec["settings"].items()
        if name not in OTHERS and not name.startswith(("engine_", "segments@"))
    }
    # the isolation has brought the model here, and means nothing more
    spec = {name: value for name, value in spec.items() if name != "isolation"}
    decides = [dict(spec, settings=settings), wanted["threads"], wanted["rows"]]
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()


def _key_of_any_threads(wanted: Dict[str, Any]) -> str:
    return model_key(dict(wanted, threads=0, rows=0))


class Shelf:
    """All models of one engine.

    Args:
        supervisor: whose loop watches them.
        semaphore: number of the permits' set.
    """

    def __init__(self, supervisor: Any, semaphore: int) -> None:
        self._supervisor = supervisor
        self.semaphore = semaphore
        self.models: Dict[str, Served] = {}
        # by the key of a model without its threads: how many pay, if fewer than somebody wanted
        self._paying: Dict[str, int] = {}
        self._leaving: List[Served] = []
        # (question, model, request in hex, until): requests whose worker dies just now
        self._open_verdicts: List[Tuple[Any, Served, str, float]] = []
        self.zygotes = Zygotes(supervisor)

    @property
    def hurry(self) -> bool:
        """Return whether somebody waits for something that no descriptor reports."""
        return bool(self._open_verdicts)

    def open(self, question: Any, wanted: Dict[str, Any]) -> None:
        """Answer with the model's path and facts, now or once it is loaded; with the wanted threads or fewer."""
        most = self._paying.get(_key_of_any_threads(wanted), wanted["threads"])
        self._open(question, dict(wanted, threads=min(wanted["threads"], most)))

    def fits(self, wanted: Dict[str, Any], threads: int, questions: List[Any]) -> None:
        """Use so many threads for a model from now on, and open it so for those who wait."""
        self._paying[_key_of_any_threads(wanted)] = threads
        for question in questions:
            if self._supervisor.ending:
                question.close()
            else:
                self._open(question, dict(wanted, threads=threads))

    def _open(self, question: Any, wanted: Dict[str, Any]) -> None:
        key = model_key(wanted)
        model = self.models.get(key)
        if model is not None and not model.reachable():
            self._supervisor.log.say("%s is opened anew: its socket was removed." % model.title)
            self._let_go(model)
            model = None
        if model is None:
            self._make_room()
            model = self.models[key] = Served(self._supervisor, self, key, wanted)
        if wanted_isolation(wanted["spec"]) == ALWAYS:
            model.serve_all()
        # taken out and put back, so that the dict is in the order of use
        self.models[key] = self.models.pop(key)
        model.ask(question)

    def gone(self, model: Served) -> None:
        """Forget a model that failed or has ended."""
        if self.models.get(model.key) is model:
            del self.models[model.key]
        if model in self._leaving:
            self._leaving.remove(model)

    def _make_room(self) -> None:
        """Let the least recently used models go until all take less than `engine_memory_mb`."""
        settings = self._supervisor.settings
        limit = int(settings.get("engine_memory_mb", memory_bytes() >> 21)) << 20
        sizes = {key: memory_of(model.pid) for key, model in self.models.items()}
        order = sorted(self.models.values(), key=lambda model: model.used)
        for model in order:
            if sum(sizes[key] for key in self.models if key in sizes) < limit:
                return
            if model.facts is not None:
                self._supervisor.log.say("%s goes: all models together take too much memory." % model.title)
                self._let_go(model)

    def loaded(self) -> None:
        """Keep as many fast models for first rows as a session keeps loaded, the most recently used ones.

        Each takes two processes and some 20 MB.
        """
        most = max(1, int(self._supervisor.settings.get("max_models", DEFAULT_MAX_MODELS)))
        passing = [model for model in self.models.values() if model.passing and model.facts is not None]
        for model in sorted(passing, key=lambda one: one.used)[:-most]:
            self._supervisor.log.say("%s goes: %d others serve first rows of sessions." % (model.title, most))
            self._let_go(model)

    def _let_go(self, model: Served) -> None:
        del self.models[model.key]
        self._leaving.append(model)
        model.finish()

    def verdict(self, question: Any, message: Dict[str, Any]) -> None:
        """Answer what became of a request: an error, or nothing if it never began."""
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
            # the slots first: a loader says why before it clears the slot
            runs = model.runs(request)
            found = model.death(request)
            if found is not None or not runs or time.monotonic() > until:
                self._open_verdicts.remove(entry)
                question.answer({"error": found} if found else {})

    def cancel(self, question: Any, message: Dict[str, Any]) -> None:
        """End the worker of a request that nobody waits for, if it goes on for too long."""
        model = self.models.get(message["key"])
        if model is not None:
            model.cancel(message["request"])
        question.close()

    def release(self, question: Any, message: Dict[str, Any]) -> None:
        """Let a model go that was opened only to learn how fast it is, unless others use it."""
        model = self.models.get(message["key"])
        if model is not None and model.facts is not None and not model_status(model)["requests"]:
            self._let_go(model)
        question.close()

    def tick(self) -> None:
        """Do what is due: verdicts, and models that load for too long."""
        self._judge()
        for model in [*self.models.values(), *self._leaving]:
            model.tick()

    def busy(self) -> bool:
        """Return whether a request runs or a model loads; a request also counts as a sign of life."""
        return any(model.busy() for model in self.models.values())

    def facts(self) -> List[Dict[str, Any]]:
        """Return the facts of each model."""
        return [model_status(model) for model in self.models.values()]

    def finish(self) -> None:
        """Take no more rows; those in the queue are still scored."""
        for model in list(self.models.values()):
            self._let_go(model)

    def drain(self, step: Any) -> None:
        """Wait until all have finished, for DRAIN_SECONDS at most."""
        until = time.monotonic() + DRAIN_SECONDS
        while self._leaving and time.monotonic() < until:
            step()

    def kill(self) -> None:
        """End all processes at once."""
        for model in [*self.models.values(), *self._leaving]:
            model.close(protocol.describe_error(_engine_has_ended()))
        self.zygotes.kill()


def _engine_has_ended() -> Exception:
    return EngineError("the engine has ended", hint="Run the statement again.")
