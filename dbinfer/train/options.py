"""The options of a training run, and a job of them from a file, the command line, a checkpoint or Python."""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dbinfer.base.errors import UsageError

STRATEGIES = ("horovod", "mirrored", "central", "downpour", "sandblaster", "split")
LAYOUTS = ("dense-by-outputs", "dense-in-pairs", "all-by-outputs")
DEVICES = ("auto", "cpu", "gpu")
LAUNCHERS = ("gloo", "mpi")
OPTIMIZERS = ("adam", "sgd", "rmsprop", "adagrad")
SCHEDULES = ("constant", "cosine")
SHARDINGS = ("split", "all")
ON_BAD = ("error", "skip")
KEEPS = ("best", "last")


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a network is trained, and where the result goes.

    Attributes:
        out: folder of the run, made if missing; empty is runs/NETWORK.
        network_options: keyword options of the network's build, e.g. {"size": 128}.
        val: where validation images come from: like the training data, or "none"; empty takes the held-out part that
            the data has, else `val_fraction` of its images.
        epochs: how often all images are seen.
        batch: images per step and rank.
        lr: learning rate of one rank; it is multiplied by the number of ranks.
        momentum: of sgd, as Nesterov has it; 0 is plain gradient descent.
        warmup: epochs over which the rate grows from `lr` to `lr` x ranks (nothing happens with one rank).
        schedule: what follows: constant, or cosine down to 0 at the end.
        sharding: split (each rank its own part of the images) or all (each rank all of them, in its own order).
        average_batch_norm: average the moving statistics of batch normalisation over the ranks after each epoch.
        shuffle, augment: a new order, and small random shifts, turns and changes of brightness, in every epoch.
        on_bad: an unreadable image ends the run (error), or is left out with a warning (skip).
        final: which epoch's weights become the model: best (by the validation) or last.
        keep: how many checkpoints stay beside the best one; 0 writes none.
        resume: "" starts afresh, "last" goes on after the newest checkpoint, a number after that epoch.
        strategy: who computes what, see dbinfer.train.strategies.
        layout: of split: what of the network is split.
        mesh: of split: GROUPSxPARTS; each group of processes holds the network once. Empty is 1xRANKS.
        device: auto (a GPU where there is one), cpu, or gpu (an error without one).
        ranks: processes; hosts: a:2,b:2 (else all here); launcher: gloo or mpi.
        servers: of the strategies downpour and sandblaster: processes that hold the weights.
        port: their first port, the other processes take the next ones; 0 takes free ones.
        private_network: where they listen, as 10.1.2.0/24; empty is this host's loopback.
        workers: threads that decode images, per rank.
        threads: threads that compute, per rank; 0 shares the host's cores evenly among its ranks.
    """

    out: str = ""
    network_options: dict[str, Any] = field(default_factory=dict)
    val: str = ""
    val_fraction: float = 0.1
    epochs: int = 10
    batch: int = 32
    optimizer: str = "adam"
    momentum: float = 0.9
    lr: float = 1e-3
    warmup: int = 3
    schedule: str = "constant"
    seed: int = 0
    shuffle: bool = True
    augment: bool = False
    sharding: str = "split"
    average_batch_norm: bool = True
    on_bad: str = "error"
    final: str = "best"
    keep: int = 2
    resume: str = ""
    strategy: str = "horovod"
    layout: str = "dense-by-outputs"
    mesh: str = ""
    device: str = "auto"
    ranks: int = 1
    hosts: str = ""
    launcher: str = "gloo"
    servers: int = 1
    port: int = 0
    private_network: str = ""
    workers: int = 2
    threads: int = 0

    def __post_init__(self) -> None:
        _check_words(self)
        for key, least in (
            ("epochs", 1),
            ("batch", 1),
            ("ranks", 1),
            ("servers", 1),
            ("port", 0),
            ("workers", 1),
            ("warmup", 0),
            ("keep", 0),
        ):
            if getattr(self, key) < least:
                raise UsageError(f"{key} is {getattr(self, key)}, but must be at least {least}")
        if not 0 < self.lr < 1000:
            raise UsageError(f"lr is {self.lr}, but must be above 0 and below 1000")
        if not 0 <= self.momentum < 1:
            raise UsageError(f"momentum is {self.momentum}, but must be at least 0 and below 1")
        if not 0 <= self.val_fraction < 1:
            raise UsageError(f"val_fraction is {self.val_fraction}, but must be at least 0 and below 1")
        if self.resume and self.resume != "last" and not self.resume.isdigit():
            raise UsageError(f"resume is {self.resume!r}, but must be 'last' or the number of an epoch")


@dataclass(frozen=True)
class TrainJob(TrainOptions):
    """The options together with what is trained on what: all that a rank must know.

    Attributes:
        network: a name of the zoo.
        data: digits, strokes, strokes:COUNT, written, written:COUNT, a folder, or a SQL query with two columns (image;
            mask, boxes or label).
        dsn: the server of SQL queries (default: dbinfer.database.connection.resolve's).
    """

    network: str
    data: str
    dsn: str = ""

    @classmethod
    def of(cls, network: str, data: str, options: TrainOptions, dsn: str | None = None) -> TrainJob:
        """Put a verb's arguments together."""
        given = {entry.name: getattr(options, entry.name) for entry in fields(TrainOptions)}
        return cls(network, data, dsn=dsn or "", **given)

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return Path(self.out or f"runs/{self.network}")

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the dsn, which may hold a password, is left out."""
        values = asdict(self)
        del values["dsn"]
        return values


def _check_words(job: TrainOptions) -> None:
    allowed = {
        "strategy": STRATEGIES,
        "layout": LAYOUTS,
        "device": DEVICES,
        "launcher": LAUNCHERS,
        "optimizer": OPTIMIZERS,
        "schedule": SCHEDULES,
        "sharding": SHARDINGS,
        "on_bad": ON_BAD,
        "final": KEEPS,
    }
    for key, words in allowed.items():
        if getattr(job, key) not in words:
            raise UsageError(f"{key} is {getattr(job, key)!r}, but must be one of {', '.join(words)}")


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_options(path: Path) -> dict[str, Any]:
    """Return the options that a TOML or JSON file sets, checked for names and types.

    Raises:
        UsageError: the file cannot be read, or names an unknown option or a value of the wrong kind.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except OSError as err:
        raise UsageError(f"the configuration {path} cannot be read: {err.strerror}") from err
    except ValueError as err:
        raise UsageError(f"cannot parse the configuration {path}: {err}") from err
    if not isinstance(values, dict):
        raise UsageError(
            f"the configuration {path} contains a {type(values).__name__}, but must contain an object"
        )
    return values


def make_job(values: dict[str, Any]) -> TrainJob:
    """Make the record from option names and values.

    Raises:
        UsageError: an option is unknown, missing, of the wrong kind, or out of range.
    """
    values = renamed(values)
    known = {entry.name: entry for entry in fields(TrainJob)}
    for key, value in values.items():
        if key not in known:
            raise UsageError(f"unknown option {key!r}", f"Options: {', '.join(known)}.")
        _check_kind(key, known[key], value)
    missing = [key for key, entry in known.items() if _required(entry) and not values.get(key)]
    if missing:
        raise UsageError(f"the option {missing[0]} is missing", "Example: dbinfer train digits --data digits")
    return TrainJob(**{key: _widened(known[key], value) for key, value in values.items()})


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values under today's names: files and checkpoints of 0.1.0 say `options` for the network's."""
    return {"network_options" if key == "options" else key: value for key, value in values.items()}


KINDS: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "dict[str, Any]": (dict,),
}


def _check_kind(key: str, entry: Field[Any], value: Any) -> None:
    # To Python a bool is an int, but `epochs = true` is a mistake
    right = isinstance(value, KINDS[entry.type]) and (entry.type == "bool" or not isinstance(value, bool))
    if not right:
        raise UsageError(f"{key} is {value!r}, but must have type {str(entry.type).split('[')[0]}")


def _widened(entry: Field[Any], value: Any) -> Any:
    return float(value) if entry.type == "float" else value


def _required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING
