"""The search space: `lr=1e-4..1e-1:log`, `batch=32,64`; each names an option of training or of the network."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from dbinfer.errors import UsageError
from dbinfer.train.options import TrainJob, TrainOptions
from dbinfer_models import NETWORKS

# Options that change what a run learns; the others say where it runs or what it leaves
TRAINING = ("lr", "batch", "optimizer", "schedule", "augment", "shuffle", "seed", "momentum")
EXAMPLE = "Examples: --search lr=1e-4..1e-1:log --search batch=32,64 --search dropout=0.1..0.5"


@dataclass(frozen=True)
class Dimension:
    """One option and the values that it may have: a range, or choices.

    Attributes:
        name: an option of training, or of the network's build.
        low, high: the range, both ends in it; whole numbers where both are.
        log: whether the range is searched by its logarithm.
        choices: the values, where it is no range.
    """

    name: str
    low: float = 0
    high: float = 0
    log: bool = False
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: Any) -> Any:
        """Return the value that an Optuna trial takes."""
        if self.choices:
            return trial.suggest_categorical(self.name, list(self.choices))
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(self.name, self.low, self.high, log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)


def read_search(texts: Sequence[str], network: str) -> tuple[Dimension, ...]:
    """Return the search space.

    Raises:
        UsageError: it is empty, or one of the texts names no option or no values.
    """
    if not texts:
        raise UsageError("the search space is empty", EXAMPLE)
    found = tuple(_dimension(text) for text in texts)
    build = tuple(inspect.signature(NETWORKS[network].build).parameters) if network in NETWORKS else ()
    known = [name for name in TRAINING if name in {entry.name for entry in fields(TrainOptions)}]
    for number, one in enumerate(found):
        if one.name not in (*known, *build):
            raise UsageError(
                f"search names the option {one.name!r}, which cannot be searched",
                f"Options of training: {', '.join(known)}; of {network}: {', '.join(build)}.",
            )
        if one.name in [other.name for other in found[:number]]:
            raise UsageError(f"search names the option {one.name!r} twice")
    return found


def with_values(job: TrainJob, values: dict[str, Any]) -> TrainJob:
    """Return the job of one trial."""
    own = {name: value for name, value in values.items() if name in TRAINING}
    build = {name: value for name, value in values.items() if name not in TRAINING}
    return replace(job, **own, network_options={**job.network_options, **build})


def _dimension(text: str) -> Dimension:
    name, _, values = text.partition("=")
    low, dots, rest = values.partition("..")
    if not name or not values.strip(","):
        raise UsageError(
            f"search is {text!r}, but must be NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C", EXAMPLE
        )
    if not dots:
        return Dimension(name, choices=tuple(_value(word) for word in values.split(",") if word))
    high, _, kind = rest.partition(":")
    ends = _value(low), _value(high)
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if not numbers or ends[0] >= ends[1] or kind not in ("", "log") or (kind and ends[0] <= 0):
        raise UsageError(
            f"search is {text!r}, but a range needs two numbers, the smaller first, and above 0 for :log",
            EXAMPLE,
        )
    return Dimension(name, ends[0], ends[1], bool(kind))


def _value(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(word.lower(), word)
