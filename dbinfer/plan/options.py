"""What a plan is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from dbinfer.errors import UsageError

CORES = 16
MOST = 1e15
FORMATS = ("JPEG", "PNG", "WebP", "BMP", "TIFF")
AMOUNTS = ("images", "hours", "hosts", "cores", "segments", "skew", "kilobytes")


@dataclass(frozen=True)
class PlanOptions:
    """How many images, of which kind, on which hosts.

    Attributes:
        images: to score a day; None: all rows of the table.
        hours: within which; hosts: that there are. One of both: the other is found; without either, in 24 hours.
        size: width and height of the images in pixels; format: JPEG, PNG, WebP, BMP or TIFF; kilobytes: of a file.
        cores, segments: of each host; None: those of the database, else 16, and a segment for each core.
        skew: rows of the fullest segment / rows of the mean one; None: as in the table, else 1.
        precision: of a model that was measured: f32, bf16 or int8.
        table, column: with such images, of which a few hundred are looked at.
        coefficients: a file of `calibrate`; None: the one that this machine has made, else those that are shipped.
        here: measure for about a second how fast this machine is, and scale the coefficients.
        calibrate: measure all coefficients on this machine first, and keep them; takes minutes.
    """

    images: float | None = None
    hours: float | None = None
    hosts: int | None = None
    size: tuple[int, int] | None = None
    format: str = "JPEG"
    kilobytes: float | None = None
    cores: int | None = None
    segments: int | None = None
    skew: float | None = None
    precision: str = "f32"
    table: str | None = None
    column: str = "img"
    coefficients: Path | None = None
    here: bool = False
    calibrate: bool = False

    def __post_init__(self) -> None:
        for name in AMOUNTS:
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and 0 < value <= MOST):
                raise UsageError(f"{name} is {value:g}, but must be greater than 0")
        if self.skew is not None and self.skew < 1:
            raise UsageError(
                f"skew is {self.skew:g}, but must be at least 1: the fullest segment / the mean one"
            )
        if self.format not in FORMATS:
            raise UsageError(f"format is {self.format!r}, but must be one of {', '.join(FORMATS)}")
        if self.size is not None and not all(0 < side <= 65535 for side in self.size):
            raise UsageError(f"size is {self.size[0]}x{self.size[1]}, but must be 1 to 65535 pixels a side")
        if self.hours is not None and self.hosts is not None:
            raise UsageError("hours and hosts are both given, but one of them is what the plan finds")
        if self.hours is not None and self.hours > 24:
            raise UsageError(
                f"hours is {self.hours:g}, but must be at most 24, because images are those of a day",
                "Divide both by the number of days.",
            )
        if self.images is None and self.table is None:
            raise UsageError("neither images nor a table is given", "Say how many, for example --images 50M.")
