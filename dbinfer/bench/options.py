"""What a run of the harness measures: networks, precisions, image sizes, ways, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbinfer.errors import UsageError

WAYS = (
    "benchmark_app",
    "bare",
    "sql",
    "batch",
    "ctas",
    "client",
    "naive",
    "naive_parallel",
    "keras",
    "keras_naive",
    "spark",
)
CORE = ("benchmark_app", "bare", "sql")
QUICK = (*CORE, "batch")
NETWORKS = ("digits", "mobilenet_v2", "resnet50", "unet")
PRECISIONS = ("f32", "bf16", "int8")
SECONDS, QUICK_SECONDS = 5.0, 3.0
QUICK_NETWORKS = ("resnet50", "digits")


@dataclass(frozen=True)
class Cell:
    """One network at one precision, on images of one size, through one SQL function.

    Attributes:
        images: `28x28`, `500x375` or `4000x3000` (width x height in pixels).
        ways: that are measured here; a run may ask for fewer.
    """

    network: str
    precision: str
    images: str
    function: str
    ways: tuple[str, ...] = CORE

    @property
    def model(self) -> str:
        """Name of the model in the database."""
        return f"dbinfer_bench_{self.network}_{self.precision}"

    @property
    def title(self) -> str:
        """Name for people."""
        return f"{self.network} {self.precision} {self.function} {self.images}"


COMMON = (*CORE, "ctas", "client")
SMALL = (*COMMON, "batch")
OTHERS = ("naive", "naive_parallel", "keras", "keras_naive", "spark")
CELLS = (
    Cell("resnet50", "f32", "500x375", "predict", (*COMMON, *OTHERS)),
    Cell("resnet50", "bf16", "500x375", "predict"),
    Cell("resnet50", "int8", "500x375", "predict"),
    Cell("digits", "f32", "28x28", "classify", SMALL),
    Cell("digits", "int8", "28x28", "classify", QUICK),
    Cell("mobilenet_v2", "f32", "500x375", "classify", COMMON),
    Cell("mobilenet_v2", "f32", "500x375", "predict"),
    Cell("mobilenet_v2", "f32", "4000x3000", "classify"),
    Cell("mobilenet_v2", "int8", "500x375", "classify"),
    Cell("unet", "f32", "500x375", "segment", COMMON),
    Cell("unet", "bf16", "500x375", "segment"),
    Cell("unet", "int8", "500x375", "segment"),
)


@dataclass(frozen=True)
class BenchOptions:
    """How to measure.

    Attributes:
        networks, precisions, ways: to keep of CELLS; empty: all that this machine can run.
        rows: of the table; None: as many as take `seconds`.
        seconds: that one measurement of one way takes, about; None: 5, in quick runs 3.
        rounds: how often every way is measured, in turns; the median counts.
        quick: ResNet-50 and digits in f32 and int8, in about 3 minutes.
        dsn: the database; see dbinfer.dsn.
        keep: leave schema and models in the database.
        tensorflow: a virtual environment with TensorFlow that the server can read, for Keras inside a UDF.
    """

    networks: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    ways: tuple[str, ...] = ()
    rows: int | None = None
    seconds: float | None = None
    rounds: int = 3
    quick: bool = False
    dsn: str | None = None
    keep: bool = False
    tensorflow: str | None = None

    def __post_init__(self) -> None:
        for option, allowed in (("networks", NETWORKS), ("precisions", PRECISIONS), ("ways", WAYS)):
            for word in getattr(self, option):
                if word not in allowed:
                    raise UsageError(f"{option}: {word!r} is none of {', '.join(allowed)}.")
        for option in ("rows", "seconds", "rounds"):
            value: Any = getattr(self, option)
            if value is not None and value <= 0:
                raise UsageError(f"{option} is {value}, but must be greater than 0.")

    @property
    def measured_seconds(self) -> float:
        """Return how long one measurement of one way takes, about."""
        return self.seconds or (QUICK_SECONDS if self.quick else SECONDS)

    def cells(self, can_bf16: bool) -> list[Cell]:
        """Return what to measure; bf16 only on a CPU that computes in it."""
        networks = self.networks or (QUICK_NETWORKS if self.quick else NETWORKS)
        precisions = self.precisions or (("f32", "int8") if self.quick else PRECISIONS)
        chosen = [c for c in CELLS if c.network in networks and c.precision in precisions]
        return [c for c in chosen if can_bf16 or c.precision != "bf16"]

    def ways_of(self, cell: Cell) -> list[str]:
        """Return the ways to measure for a cell."""
        if self.ways:
            return [way for way in self.ways if way in cell.ways or way in COMMON]
        return [way for way in cell.ways if not self.quick or way in QUICK]
