"""The search space (`lr=1e-4..1e-1:log`), the options of a search, and the job that its workers get."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.options import check, documented, option
from dbinfer.train.options import TrainJob, TrainOptions, own_name
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


PRUNERS = ("hyperband", "median", "none")
WAITING = "hops"  # folder of a trial that hops, with its weights by the number of hops that have changed them


@documented
@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """How a search goes.

    Attributes:
        train: the options that all trials share; `epochs` is the most that a trial may take.
    """

    train: TrainOptions = field(default_factory=TrainOptions)
    trials: int = option(20, "How many trials must have ended; with --resume, earlier ones count.", least=1)
    workers: int = option(
        1, "Processes, each of which reads the data once and trains one trial after the other.", least=1
    )
    hosts: str = option("", "Where the workers run: a:2,b:2. Default: all on this host.")
    pruner: str = option(
        "hyperband",
        "What stops poor trials early: hyperband (not among the best of its bracket), median (below the median of the "
        "others) or none.",
        choices=PRUNERS,
    )
    hop: bool = option(
        False,
        "Each worker keeps its shard of the images; the weights of the trials travel from shard to shard.",
    )
    study: str = option("", "Name of the search in dbinfer.trials. Default: the network's.")
    resume: bool = option(False, "Go on with a study that has begun.")
    out: str = option("", "Folder of the search. Default: tuning/STUDY.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class TuneJob:
    """What a worker must know.

    Attributes:
        train: what each trial starts from; `out` is the folder of the search.
        search: the texts of the search space.
        shards: of a search whose weights hop, one for each worker; 0 where each worker has all images.
    """

    train: TrainJob
    search: tuple[str, ...]
    study: str
    trials: int
    pruner: str
    shards: int = 0

    @classmethod
    def of(cls, network: str, data: str, search: Sequence[str], options: TuneOptions, dsn: str) -> TuneJob:
        """Put a verb's arguments together."""
        if own_name(network):
            raise UsageError(
                f"the search takes networks of the zoo, but the network is {network!r}",
                f"Choose one of {', '.join(NETWORKS)}; dbinfer train takes your own.",
            )
        study = options.study or network
        values = {
            **asdict(options.train),
            "out": options.out or f"tuning/{study}",
            "keep": 1,
            "final": "best",
        }
        train = TrainJob(network, data, dsn, **values)
        if train.val == "none":
            raise UsageError("val is none, but a search compares its trials by their validation")
        if train.ranks > 1 or train.resume:
            raise UsageError("a trial is trained by one process from its start: leave ranks and resume out")
        shards = options.workers if options.hop else 0
        return cls(
            train=train,
            search=tuple(search),
            study=study,
            trials=options.trials,
            pruner=options.pruner,
            shards=shards,
        )

    @property
    def folder(self) -> Path:
        """The folder of the search."""
        return self.train.folder

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without the dsn."""
        return {**asdict(self), "train": self.train.to_dict()}

    @classmethod
    def from_dict(cls, values: dict[str, Any], dsn: str) -> TuneJob:
        """Make it from `to_dict`'s values."""
        train = TrainJob(**{**values["train"], "dsn": dsn})
        return cls(**{**values, "train": train, "search": tuple(values["search"])})
