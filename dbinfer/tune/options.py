"""The options of a search, and the job that its workers get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dbinfer.errors import UsageError
from dbinfer.train.options import TrainJob, TrainOptions

PRUNERS = ("hyperband", "median", "none")
WAITING = "hops"  # folder of a trial that hops, with its weights by the number of hops that have changed them


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """How a search goes.

    Attributes:
        train: the options that all trials share; `epochs` is the most that a trial may take.
        study: name of the search in the database; empty is the network's.
        trials: how many must have ended, those of earlier commands with `resume` too.
        workers: processes, each of which reads the data once and trains one trial after the other.
        hosts: where: a:2,b:2; else all here.
        pruner: what stops a trial early: hyperband (its score after few epochs is not among the best of its bracket),
            median (it is below the median of the others) or none.
        hop: each worker keeps its shard of the images, and the weights of the trials travel from shard to shard.
        resume: go on with a study that has begun.
        out: folder of the search; empty is tuning/STUDY.
    """

    train: TrainOptions = field(default_factory=TrainOptions)
    study: str = ""
    trials: int = 20
    workers: int = 1
    hosts: str = ""
    pruner: str = "hyperband"
    hop: bool = False
    resume: bool = False
    out: str = ""

    def __post_init__(self) -> None:
        for key in ("trials", "workers"):
            if getattr(self, key) < 1:
                raise UsageError(f"{key} is {getattr(self, key)}, but must be at least 1")
        if self.pruner not in PRUNERS:
            raise UsageError(f"pruner is {self.pruner!r}, but must be one of {', '.join(PRUNERS)}")


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
        return cls(train, tuple(search), study, options.trials, options.pruner, shards)

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
