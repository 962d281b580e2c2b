"""What a quantization did: how far both models agree, and what each costs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


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
class QuantizeReport:
    """The facts of one quantization.

    Attributes:
        measure: what `agreement` is: `top-1`, `IoU` or `cosine`.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "source": str(self.source), "output": str(self.output)}
