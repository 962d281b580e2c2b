"""The options of a training run, and a job of them from a file, the command line, a checkpoint or Python."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.options import check, documented, mapping, option

STRATEGIES = ("horovod", "mirrored", "central", "downpour", "sandblaster", "split", "pipeline", "averaging")
LAYOUTS = ("dense-by-outputs", "dense-in-pairs", "all-by-outputs")
BINDINGS = ("core", "l3cache", "numa", "socket", "node")
BOUND = re.compile(rf"({'|'.join(BINDINGS)})(:pe=[1-9][0-9]*)?")
DEVICES = ("auto", "cpu", "gpu")
PRECISIONS = ("f32", "bf16")
LAUNCHERS = ("gloo", "mpi")
OPTIMIZERS = ("adam", "sgd", "rmsprop", "adagrad")
DEFAULT_RATE, DEFAULT_OPTIMIZER = 1e-3, "adam"
SCHEDULES = ("constant", "cosine")
SHARDINGS = ("split", "all")
ON_BAD = ("error", "skip")
KEEPS = ("best", "last")
FOLLOWING = ("described", "version", "labels", "weights")  # what nobody sets
RENAMED = {"options": "network_options", "workers": "decode_threads"}


def read_settings(_: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return names and values of the texts of --set, for example `size=128`."""
    return dict(map(_setting, texts))


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--set is {text!r}, but must be NAME=VALUE", "Example: --set size=128")
    # People write True and None as well, and none, which neither JSON nor Python knows
    known = {"true": True, "false": False, "none": None}
    if value.lower() in known:
        return name, known[value.lower()]
    for read in (json.loads, ast.literal_eval):
        try:
            return name, read(value)
        except (ValueError, SyntaxError):
            continue
    return name, value


# A network of the user's own: FILE.py, FILE.py:NAME or FILE.keras; else it may be MODULE:FUNCTION
FILE = re.compile(r"(?P<file>.+\.(?:py(?=$|:)|keras$))(?::(?P<name>\w+))?")
MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<function>\w+)")
# A version in the database that was deployed with its Keras file
VERSION = re.compile(r"(?P<model>[A-Za-z_][\w.-]*)@(?P<version>[\w.-]+)")


def own_name(network: str) -> str:
    """Return what a network of the user's own is called, as its run and its files are; nothing for those of the zoo."""
    if found := FILE.fullmatch(network):
        # Also of NAME.start.keras, which dbinfer.train writes
        return re.sub(r"\W", "_", Path(found["file"]).name.partition(".")[0]) or "network"
    if found := VERSION.fullmatch(network):
        return re.sub(r"\W", "_", found["model"])
    if found := MODULE.fullmatch(network):
        return found["function"] if found["function"] != "build" else found["module"].rpartition(".")[2]
    return ""


@documented
@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a network is trained, and where the result goes."""

    out: str = option("", "Folder of the run, made if missing. Default: runs/NETWORK.")
    ranks: int = option(1, "Processes (mirrored, central: devices) that train together.", least=1)
    hosts: str = option("", "Ranks per host: a:2,b:2. Default: all on this host.")
    strategy: str = option("horovod", "Who computes what: {choices}.", choices=STRATEGIES)
    layout: str = option(LAYOUTS[0], "What `split` splits: {choices}.", choices=LAYOUTS)
    mesh: str = option(
        "",
        "Of `split` and `pipeline`: GROUPSxPARTS; each group of processes holds the network once. Default: 1xRANKS.",
    )
    micro_batches: int = option(4, "Of `pipeline`: into how many parts a batch is cut.", least=1)
    cuts: str = option(
        "",
        "Of `pipeline`: the layers after which the network is cut: pool1,fc1. Default: so that the slowest stage is as "
        "quick as can be, by measured times.",
    )
    block: int = option(
        16, "Of `averaging`: steps that each rank makes alone before the weights are averaged.", least=1
    )
    block_momentum: float | None = option(
        None,
        "Of `averaging`: how much of the last block's change the next one goes on with. Default: 1 - 1/ranks.",
    )
    device: str = option("auto", "auto (a GPU if there is one), cpu, or gpu.", choices=DEVICES)
    precision: str = option(
        "f32",
        "What the processor multiplies in: {choices} (faster with AMX and large convolutions; weights stay f32).",
        choices=PRECISIONS,
    )
    launcher: str = option(
        "gloo", "What starts the ranks: gloo (horovodrun) or mpi (mpirun).", choices=LAUNCHERS
    )
    bind: str = option(
        "",
        "Of the launcher mpi: what each rank is bound to, as mpirun's -map-by says it: core, numa, socket:pe=10 (10 "
        "cores of a socket). Default: nothing.",
        metavar="WHERE",
    )
    servers: int = option(1, "Processes that hold the weights, of downpour and sandblaster.", least=1)
    staleness_aware: bool = option(
        False,
        "Of `downpour`: divide the rate of an update by the number of others that came while it was computed.",
        "--staleness-aware",
    )
    port: int = option(
        0, "First port of those processes; the others take the next ones. 0: any free ports.", least=0
    )
    private_network: str = option(
        "", "Network on which the processes listen, for example 10.1.2.0/24. Default: loopback."
    )
    epochs: int = option(10, "Passes over the images.", least=1)
    batch: int = option(32, "Images per step and rank.", least=1)
    lr: float | None = option(
        None,
        "Learning rate of one rank; multiplied by the number of ranks, except with downpour and averaging. Default: "
        "that of the optimizer that your network was compiled with, else 0.001.",
    )
    warmup: int = option(3, "Epochs in which the rate rises from lr to lr x ranks.", least=0)
    schedule: str = option(
        "constant", "Learning rate after the warm-up: {choices} (falls to 0).", choices=SCHEDULES
    )
    optimizer: str | None = option(
        None,
        "Optimizer: {choices}. Default: the one that your network was compiled with, else adam.",
        choices=OPTIMIZERS,
    )
    momentum: float = option(0.9, "Nesterov momentum of sgd; 0 is plain gradient descent.")
    fine_tune: float | None = option(
        None,
        "Go on from trained weights: give the network a new head where the number of labels is another one, train that "
        "alone, then this share of the layers before it too, counted from the end; 0 trains the head alone.",
    )
    head_epochs: int = option(5, "Of --fine-tune: epochs of the head alone, before --epochs.", least=0)
    fine_tune_rate: float = option(0.1, "Of --fine-tune: the rate after these, as a share of --lr.")
    network_options: dict[str, Any] = mapping(
        "Option of the network: size=128. Repeatable.", "--set", typed=list[str], read=read_settings
    )
    val: str = option(
        "",
        "Validation data, like --data, or none. Default: the held-out part of the data, else --val-fraction.",
    )
    val_fraction: float = option(0.1, "Share to hold out if the data has no held-out part.")
    balance: bool = option(
        False,
        "Weigh labels in the loss, so that rare ones count as much as frequent ones; at most a hundredfold.",
        "--balance",
    )
    early_stop: int = option(
        0, "Stop when the validation has not become better in so many epochs; 0: never.", least=0
    )
    augment: bool = option(False, "Shift, turn and brighten the images a little, at random, in every epoch.")
    shuffle: bool = option(True, "Take the images in a new order in every epoch.")
    sharding: str = option(
        "split",
        "split (each rank has its part of the images), or all (each rank sees every image).",
        choices=SHARDINGS,
    )
    average_batch_norm: bool = option(
        True, "Average the moving statistics of batch normalisation over the ranks after each epoch."
    )
    on_bad: str = option(
        "error", "For an unreadable image: error (stop), or skip it with a warning.", choices=ON_BAD
    )
    final: str = option(
        "best", "Which epoch's model to keep: best (by the validation) or last.", choices=KEEPS
    )
    keep: int = option(2, "Checkpoints to keep besides the best one; 0 writes none.", least=0)
    seed: int = option(0, "Seed of weights, order and augmentation.")
    decode_threads: int = option(2, "Threads per rank that decode images.", least=1)
    threads: int = option(
        0, "Threads per rank that compute; 0 shares the host's cores among its ranks.", least=0
    )
    deploy: str = option(
        "",
        "Convert the model, try it, deploy it under this name, with its metrics and --data, and compare it with the "
        "active version.",
        metavar="NAME",
    )
    alias: str = option("", "Of --deploy: alias for the new version, for example candidate.")
    activate: bool = option(
        False, "Of --deploy: let the model's plain name mean the new version.", "--activate"
    )
    source: bool = option(
        False, "Of --deploy: keep the Keras file in the database, too, for a later --from.", "--source"
    )
    resume: str = option("", "Continue after this epoch, or after the newest checkpoint.", metavar="[EPOCH]")

    def __post_init__(self) -> None:
        check(self)
        if self.lr is not None and not 0 < self.lr < 1000:
            raise UsageError(f"lr is {self.lr}, but must be above 0 and below 1000")
        if self.bind and self.launcher != "mpi":
            raise UsageError(
                f"bind is {self.bind!r}, but the launcher {self.launcher} binds no ranks",
                "Add --launcher mpi.",
            )
        if self.bind and not BOUND.fullmatch(self.bind):
            raise UsageError(
                f"bind is {self.bind!r}, but must be one of {', '.join(BINDINGS)}",
                "Add :pe=CORES where a rank gets several cores: socket:pe=10.",
            )
        if not 0 <= self.momentum < 1:
            raise UsageError(f"momentum is {self.momentum}, but must be at least 0 and below 1")
        if self.block_momentum is not None and not 0 <= self.block_momentum < 1:
            raise UsageError(f"block_momentum is {self.block_momentum}, but must be at least 0 and below 1")
        if not 0 <= self.val_fraction < 1:
            raise UsageError(f"val_fraction is {self.val_fraction}, but must be at least 0 and below 1")
        if self.fine_tune is not None and not 0 <= self.fine_tune <= 1:
            raise UsageError(f"fine_tune is {self.fine_tune}, but must be at least 0 and at most 1")
        if not 0 < self.fine_tune_rate <= 1:
            raise UsageError(f"fine_tune_rate is {self.fine_tune_rate}, but must be above 0 and at most 1")
        if self.early_stop and self.val == "none":
            raise UsageError(
                f"early_stop is {self.early_stop}, but val is 'none': nothing says when to stop",
                "Leave out --val none, or --early-stop.",
            )
        for key in ("alias", "activate", "source"):
            if getattr(self, key) and not self.deploy:
                raise UsageError(
                    f"{key} is {getattr(self, key)!r}, but nothing is deployed", "Add --deploy NAME."
                )
        if self.resume and self.resume != "last" and not self.resume.isdigit():
            raise UsageError(f"resume is {self.resume!r}, but must be 'last' or the number of an epoch")


@dataclass(frozen=True)
class TrainJob(TrainOptions):
    """The options together with what is trained on what: all that a rank must know.

    Attributes:
        network: a name of the zoo, or one of the user's own: FILE.py, FILE.py:NAME, FILE.keras, MODULE:FUNCTION,
            keras:NAME, or NAME@VERSION in the database.
        data: digits, strokes, strokes:COUNT, written, written:COUNT, a folder, or a SQL query with two columns (image;
            mask, boxes, label, array of labels, enum or real number).
        dsn: the server of SQL queries (default: dbinfer.database.connection.resolve's).
        described: what follows from a network of the user's own, once dbinfer.train.described has looked at it.
        version: where the network is the Keras file of a deployed version, which one, as NAME@VERSION.
        labels: of that version.
        weights: of the data's labels in the loss, where they are to be balanced.
    """

    network: str
    data: str
    dsn: str = ""
    described: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    labels: list[str] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not own_name(self.network):
            # No compiled optimizer can decide: the same values in checkpoints and reports, named or not
            object.__setattr__(self, "lr", self.rate)
            object.__setattr__(self, "optimizer", self.optimizer or DEFAULT_OPTIMIZER)
            if self.fine_tune is not None:
                raise UsageError(
                    f"fine_tune is {self.fine_tune}, but the network {self.network} of the zoo has no trained weights",
                    f"Give the file of a run: runs/{self.network}/{self.network}.keras",
                )

    @classmethod
    def of(cls, network: str, data: str, options: TrainOptions, dsn: str | None = None) -> TrainJob:
        """Put a verb's arguments together."""
        given = {entry.name: getattr(options, entry.name) for entry in fields(TrainOptions)}
        return cls(network, data, dsn=dsn or "", **given)

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return Path(self.out or f"runs/{self.name}")

    @property
    def rate(self) -> float:
        """The learning rate of one rank."""
        return DEFAULT_RATE if self.lr is None else self.lr

    @property
    def name(self) -> str:
        """What the network is called; its model is NAME.keras."""
        return own_name(self.network) or self.network

    @property
    def settled_labels(self) -> tuple[str, ...]:
        """The labels that the data must have: of a version that goes on with its head; none where the data decides."""
        return tuple(self.labels) if self.fine_tune is None else ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; the dsn, which may hold a password, is left out."""
        values = asdict(self)
        del values["dsn"]
        return values


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
    return renamed(values)


def make_job(values: dict[str, Any]) -> TrainJob:
    """Make the record from option names and values.

    Raises:
        UsageError: an option is unknown, missing, of the wrong kind, or out of range.
    """
    values = renamed(values)
    known = {entry.name: entry for entry in fields(TrainJob) if entry.name not in FOLLOWING}
    for key, value in values.items():
        if key not in known:
            raise UsageError(f"unknown option {key!r}", f"Options: {', '.join(known)}.")
        _check_kind(key, known[key], value)
    missing = [key for key, entry in known.items() if _required(entry) and not values.get(key)]
    if missing:
        raise UsageError(f"the option {missing[0]} is missing", "Example: dbinfer train digits --data digits")
    return TrainJob(**{key: _widened(known[key], value) for key, value in values.items()})


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values under today's names: files and checkpoints may have those of 0.1.0."""
    return {RENAMED.get(key, key): value for key, value in values.items()}


KINDS: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "str | None": (str, type(None)),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "bool": (bool,),
    "dict[str, Any]": (dict,),
}


def _check_kind(key: str, entry: Field[Any], value: Any) -> None:
    # To Python a bool is an int, but `epochs = true` is a mistake
    right = isinstance(value, KINDS[entry.type]) and (entry.type == "bool" or not isinstance(value, bool))
    if not right:
        raise UsageError(f"{key} is {value!r}, but must have type {str(entry.type).split('[')[0]}")


def _widened(entry: Field[Any], value: Any) -> Any:
    return float(value) if entry.type.startswith("float") and value is not None else value


def _required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING
