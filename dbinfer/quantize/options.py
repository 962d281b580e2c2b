"""The options and the report of a quantization."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbinfer.errors import UsageError
from dbinfer.report import Report


@dataclass(frozen=True)
class QuantizeOptions:
    """How to quantize.

    Attributes:
        calibrate: SQL whose first column is the image (bytea).
        check: SQL whose columns are image and label (a class number or a label's text); empty: none.
        subset: how many images to calibrate with.
        limit: least agreement with the original (0..1); below it nothing is written.
        force: overwrite an output that is there.
    """

    calibrate: str = ""
    check: str = ""
    subset: int = 300
    limit: float = 0.99
    force: bool = False

    def __post_init__(self) -> None:
        if self.subset < 1:
            raise UsageError(f"--subset is {self.subset}, but must be at least 1")
        if not 0 <= self.limit <= 1:
            raise UsageError(f"--limit is {self.limit}, but must be 0 to 1")


@dataclass(frozen=True)
class Side:
    """One of the two models.

    Attributes:
        size: bytes of .xml and .bin.
        milliseconds: median of one inference with all cores.
        accuracy: share of right answers on labelled images; None without labels.
    """

    size: int
    milliseconds: float
    accuracy: float | None = None


@dataclass(frozen=True)
class QuantizeReport(Report):
    """The outcome of one quantization.

    Attributes:
        measure: what `agreement` is: `top-1`, `IoU`, `boxes` or `cosine`.
        agreement: mean over the compared images, 0..1.
        held_out: the compared images were not calibrated with.
        max_difference, mean_difference: of single output values.
    """

    source: Path
    output: Path
    calibrated: int
    compared: int
    held_out: bool
    measure: str
    agreement: float
    max_difference: float
    mean_difference: float
    original: Side
    quantized: Side
