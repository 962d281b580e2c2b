"""What a run measures: networks, precisions, image sizes, methods, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbinfer.errors import UsageError

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
