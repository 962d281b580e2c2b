"""The models of an engine: which are loaded, which load, which goes when memory is short, and how requests ended."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any, Dict, List, Tuple

from .. import isolation
from ..limits import memory_bytes
from ..models import DEFAULT_MAX_MODELS
from . import shown, wire
from .errors import EngineError
from .hosted import Hosted
from .zygotes import Zygotes

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
        sizes = {key: shown.memory(model.pid) for key, model in self.models.items()}
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
        if model is not None and model.facts is not None and not shown.facts(model)["requests"]:
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
        return [shown.facts(model) for model in self.models.values()]

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
            model.close(wire.describe(_ended()))
        self.zygotes.kill()


def _ended() -> Exception:
    return EngineError("the engine has ended", hint="Run the statement again.")
