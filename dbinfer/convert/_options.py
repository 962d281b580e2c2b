"""What a caller can say about a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbinfer.errors import UsageError

WEIGHTS = ("fp32", "fp16")
LAYOUTS = ("NHWC", "NCHW")
TOLERANCE = {"fp32": 1e-3, "fp16": 1e-2}


@dataclass(frozen=True)
class ConvertOptions:
    """How to convert, and what is known of the model.

    Attributes:
        weights: `fp32`, or `fp16` for half the size.
        tolerance: largest difference allowed between source and IR, as a share of the largest output;
            None takes 1e-3 for fp32 and 1e-2 for fp16.
        force: overwrite an output whose content differs.
        manifest: a manifest file to read in place of the one beside the source.
        network: name of a zoo network whose preprocessing the model shares.
        layout: `NHWC` or `NCHW`, where the shape leaves it open.
        output_name: which output to keep, where the model has several.
        values: keys of the manifest that the caller gives; they win over every other source.
    """

    weights: str = "fp32"
    tolerance: float | None = None
    force: bool = False
    manifest: Path | None = None
    network: str | None = None
    layout: str | None = None
    output_name: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.weights not in WEIGHTS:
            raise UsageError(f"weights is {self.weights!r}, but must be fp32 or fp16.")
        if self.layout not in (None, *LAYOUTS):
            raise UsageError(f"layout is {self.layout!r}, but must be NHWC or NCHW.")
        if self.tolerance is not None and not self.tolerance > 0:
            raise UsageError(f"tolerance is {self.tolerance!r}, but must be greater than 0.")

    @property
    def limit(self) -> float:
        """The tolerance in force."""
        return TOLERANCE[self.weights] if self.tolerance is None else self.tolerance
