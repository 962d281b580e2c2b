"""What a run measures, and what it returns: samples of every round become results with their ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.report import Report

# sql, batch, ctas and job are ours; all others are what they are compared with
METHODS = (
    "benchmark_app",
    "bare",
    "sql",
    "batch",
    "ctas",
    "job",
    "client",
    "naive",
    "naive_parallel",
    "keras",
    "keras_naive",
    "spark",
)
CORE = ("benchmark_app", "bare", "sql")
QUICK = (*CORE, "batch")
NETWORKS = ("detector", "digits", "mobilenet_v2", "resnet50", "unet")
PRECISIONS = ("f32", "bf16", "int8")
SECONDS, QUICK_SECONDS = 5.0, 3.0
QUICK_NETWORKS = ("resnet50", "digits")


@dataclass(frozen=True)
class Case:
    """One network at one precision, on images of one size, through one SQL function.

    Attributes:
        images: `28x28`, `500x375` or `4000x3000` (width x height in pixels).
        methods: that are measured here; a run may ask for fewer.
    """

    network: str
    precision: str
    images: str
    function: str
    methods: tuple[str, ...] = CORE

    @property
    def model(self) -> str:
        """Name of the model in the database."""
        return f"dbinfer_bench_{self.network}_{self.precision}"

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the images."""
        width, height = self.images.split("x")
        return int(width), int(height)

    @property
    def title(self) -> str:
        """Name for people."""
        return f"{self.network} {self.precision} {self.function} {self.images}"


COMMON = (*CORE, "ctas", "job", "client", "batch")
OTHERS = ("naive", "naive_parallel", "keras", "keras_naive", "spark")
CASES = (
    Case("resnet50", "f32", "500x375", "predict", (*COMMON, *OTHERS)),
    Case("resnet50", "bf16", "500x375", "predict"),
    Case("resnet50", "int8", "500x375", "predict"),
    Case("digits", "f32", "28x28", "classify", COMMON),
    Case("digits", "f32", "28x28", "predict", QUICK),
    Case("digits", "int8", "28x28", "classify", QUICK),
    Case("mobilenet_v2", "f32", "500x375", "classify", COMMON),
    Case("mobilenet_v2", "f32", "500x375", "predict"),
    Case("mobilenet_v2", "f32", "4000x3000", "classify"),
    Case("mobilenet_v2", "int8", "500x375", "classify"),
    Case("unet", "f32", "500x375", "segment", COMMON),
    Case("unet", "bf16", "500x375", "segment"),
    Case("unet", "int8", "500x375", "segment"),
    Case("detector", "f32", "500x375", "detect", QUICK),
    Case("detector", "bf16", "500x375", "detect"),
)


@dataclass(frozen=True)
class BenchOptions:
    """How to measure.

    Attributes:
        networks, precisions, methods: to keep of CASES; empty: all that this machine can run.
        rows: of the table; None: as many as take `seconds`.
        seconds: that one measurement of one method takes, about; None: 5, in quick runs 3.
        rounds: how often every method is measured, in turns; the median counts.
        quick: ResNet-50 and digits in f32 and int8, in about 3 minutes.
        keep: leave schema and models in the database.
        tensorflow: a virtual environment with TensorFlow that the server can read, for Keras inside a UDF.
    """

    networks: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    rows: int | None = None
    seconds: float | None = None
    rounds: int = 3
    quick: bool = False
    keep: bool = False
    tensorflow: str | None = None

    def __post_init__(self) -> None:
        for option, allowed in (("networks", NETWORKS), ("precisions", PRECISIONS), ("methods", METHODS)):
            for word in getattr(self, option):
                if word not in allowed:
                    raise UsageError(f"{option} is {word!r}, but must be one of {', '.join(allowed)}")
        for option in ("rows", "seconds", "rounds"):
            value: Any = getattr(self, option)
            if value is not None and value <= 0:
                raise UsageError(f"{option} is {value}, but must be greater than 0")

    @property
    def measured_seconds(self) -> float:
        """Return how long one measurement of one method takes, about."""
        return self.seconds or (QUICK_SECONDS if self.quick else SECONDS)

    def cases(self, can_bf16: bool) -> list[Case]:
        """Return what to measure; bf16 only on a CPU that computes in it."""
        networks = self.networks or (QUICK_NETWORKS if self.quick else NETWORKS)
        precisions = self.precisions or (("f32", "int8") if self.quick else PRECISIONS)
        chosen = [c for c in CASES if c.network in networks and c.precision in precisions]
        return [c for c in chosen if can_bf16 or c.precision != "bf16"]

    def methods_of(self, case: Case) -> list[str]:
        """Return the methods to measure for a case."""
        if self.methods:
            return [name for name in self.methods if name in case.methods or name in COMMON]
        return [name for name in case.methods if not self.quick or name in QUICK]


Row = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        images_per_s: once everything is loaded.
        whole: images / seconds of the whole statement, with the start of its processes; None where there is none.
        start: seconds before work is in full swing; None where nothing starts.
    """

    images_per_s: float
    whole: float | None = None
    start: float | None = None


@dataclass(frozen=True)
class Result:
    """Images per second of one method.

    Attributes:
        images: width x height.
        ratio_bare, ratio_benchmark_app: to those methods in the same case, as the median over the rounds.
        lowest, highest: images per second of single rounds.
        images_per_s_whole: with the start of the statement's processes; start_ms: what that costs.
        more: what belongs to `sql` alone: microseconds, first row, memory, agreement, ... (see dbinfer.bench.measure).
    """

    network: str
    precision: str
    images: str
    function: str
    method: str
    images_per_s: float
    ratio_bare: float | None = None
    ratio_benchmark_app: float | None = None
    rows: int = 0
    rounds: int = 0
    lowest: float = 0.0
    highest: float = 0.0
    images_per_s_whole: float | None = None
    start_ms: float | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> Row:
        """Return plain JSON values without what is not known; `more` beside the rest."""
        values = asdict(self)
        more = values.pop("more")
        return {key: value for key, value in {**values, **more}.items() if value is not None}


@dataclass(frozen=True)
class BenchReport(Report):
    """What a run measured: on what, and all results."""

    environment: dict[str, Any]
    results: list[Result]


@dataclass(frozen=True)
class ScalingReport(Report):
    """How cost grows: on what, and {title: rows}; each row's first key is what grows."""

    environment: dict[str, Any]
    scaling: dict[str, list[Row]]


@dataclass(frozen=True)
class IsolationReport(Report):
    """The engine beside in-process scoring: on what, and a row for each line of the table."""

    environment: dict[str, Any]
    isolation: list[Row]


def results(case: Case, rows: int, samples: dict[str, list[Sample]]) -> list[Result]:
    """Return the results of a case; `samples` holds every method's rounds, in turns."""
    bare, app = samples.get("bare", []), samples.get("benchmark_app", [])
    key = (case.network, case.precision, case.images, case.function)
    return [
        Result(*key, method, *_rates(taken, bare, app), **_spread(taken), rows=rows)
        for method, taken in samples.items()
    ]


def ratio(samples: Sequence[Sample], against: Sequence[Sample]) -> float | None:
    """Return the median over the rounds of one method's rate / another's in the same round."""
    pairs = zip(samples, against, strict=False)
    return _middle(a.images_per_s / b.images_per_s for a, b in pairs if b.images_per_s)


def with_profile(results: list[Result], more: Row) -> list[Result]:
    """Return the results with these values at the method `sql`."""
    return [replace(r, more={**r.more, **more}) if r.method == "sql" else r for r in results]


def _rates(
    taken: list[Sample], bare: list[Sample], app: list[Sample]
) -> tuple[float, float | None, float | None]:
    rate = median(sample.images_per_s for sample in taken)
    return _significant(rate), ratio(taken, bare), ratio(taken, app)


def _spread(taken: list[Sample]) -> dict[str, Any]:
    rates = [sample.images_per_s for sample in taken]
    return {
        "rounds": len(taken),
        "lowest": _significant(min(rates)),
        "highest": _significant(max(rates)),
        "images_per_s_whole": _middle(sample.whole for sample in taken),
        "start_ms": _middle(None if s.start is None else s.start * 1000 for s in taken),
    }


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _significant(median(known)) if known else None


def _significant(value: float) -> float:
    return float(f"{value:.4g}")


def case_name(row: Row) -> str:
    """Return `resnet50 f32 predict 500x375`."""
    return " ".join(str(row[key]) for key in ("network", "precision", "function", "images"))
