"""What a plan is asked, and what it finds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.report import Report

CORES = 16
MOST, MOST_HOSTS, MOST_CORES = 1e15, 10**7, 10**4
FORMATS = ("JPEG", "PNG", "WebP", "BMP", "TIFF")
SPELT = {**{name.lower(): name for name in FORMATS}, "jpg": "JPEG", "tif": "TIFF"}
# Amounts, and the most that each may be
AMOUNTS = {
    "images": MOST,
    "hours": MOST,
    "hosts": MOST_HOSTS,
    "cores": MOST_CORES,
    "segments": MOST_CORES,
    "skew": MOST,
    "kilobytes": MOST,
}
ITS_OWN = ("the table's images have their own", "Leave out one of them.")
MEASURED = ("calibrating measures all that this machine takes", "Leave out one of them.")
# Of two options one would change nothing, or contradict the other: why, and the cure
CLASHES = {
    ("hours", "hosts"): (
        "one of them is what the plan finds",
        "Leave out hosts to learn how many it takes, or hours to learn how long they take.",
    ),
    ("size", "table"): ITS_OWN,
    ("format", "table"): ITS_OWN,
    ("kilobytes", "table"): ITS_OWN,
    ("here", "calibrate"): MEASURED,
    ("coefficients", "calibrate"): MEASURED,
}


@dataclass(frozen=True)
class PlanOptions:
    """How many images, of which kind, on which hosts.

    Attributes:
        images: to score a day; None: all rows of the table.
        hours: within which; hosts: that there are. One of both: the other is found; without either, in 24 hours.
        size: width and height of the images in pixels; format: JPEG, PNG, WebP, BMP or TIFF, None: JPEG; kilobytes: of
            a file. Not with a table.
        cores, segments: of each host; None: those of the database, else 16, and a segment for each core.
        skew: rows of the fullest segment / rows of the mean one; None: as in the table, else 1.
        precision: of a model that was measured: f32 (None) or int8. A deployed model has its own.
        table, column: with such images, of which a few hundred are looked at; column None: img.
        coefficients: a file of `calibrate`; None: the one that this machine has made, else those that are shipped.
        here: measure for about a second how fast this machine is, and scale the coefficients.
        calibrate: measure all coefficients on this machine first, and keep them; takes minutes.
    """

    images: float | None = None
    hours: float | None = None
    hosts: int | None = None
    size: tuple[int, int] | None = None
    format: str | None = None
    kilobytes: float | None = None
    cores: int | None = None
    segments: int | None = None
    skew: float | None = None
    precision: str | None = None
    table: str | None = None
    column: str | None = None
    coefficients: Path | None = None
    here: bool = False
    calibrate: bool = False

    def __post_init__(self) -> None:
        self._check_amounts()
        self._check_images()
        self._check_together()
        if self.format is not None:
            object.__setattr__(self, "format", SPELT[self.format.lower()])  # the way into a frozen dataclass

    def _check_amounts(self) -> None:
        for name, most in AMOUNTS.items():
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and 0 < value <= most):
                raise UsageError(f"{name} is {value:g}, but must be greater than 0 and at most {most:g}")
        if self.skew is not None and self.skew < 1:
            raise UsageError(
                f"skew is {self.skew:g}, but must be at least 1: the fullest segment / the mean one"
            )

    def _check_images(self) -> None:
        if self.format is not None and self.format.lower() not in SPELT:
            raise UsageError(f"format is {self.format!r}, but must be one of {', '.join(FORMATS)}")
        if self.size is not None and not all(0 < side <= 65535 for side in self.size):
            raise UsageError(f"size is {self.size[0]}x{self.size[1]}, but must be 1 to 65535 pixels a side")

    def _check_together(self) -> None:
        for (first, second), (why, cure) in CLASHES.items():
            if getattr(self, first) and getattr(self, second):
                raise UsageError(f"{first} and {second} are both given, but {why}", cure)
        if self.images is None and self.table is None:
            raise UsageError("neither images nor a table is given", "Say how many, for example --images 50M.")
        if self.column is not None and self.table is None:
            raise UsageError("a column is given, but no table", "Name the table with --table.")
        # without a number of images it is the rows of the table, which are nobody's day
        if self.images is not None and self.hours is not None and self.hours > 24:
            raise UsageError(
                f"hours is {self.hours:g}, but must be at most 24, because images are those of a day",
                "Divide both by the number of days.",
            )


@dataclass(frozen=True)
class PlanReport(Report):
    """What the images need.

    Attributes:
        model: NAME, or NAME@VERSION of a database; precision: that it runs at; function: that scores it.
        images: to score; hours: that this takes; hosts: that do it.
        hours_between: the least and the most that those hosts may take, by the largest error.
        hosts_between: the least and the most that it may need, by the same; of hosts that are given, those.
        cores, segments: of each host; threads: of each segment, in an inference.
        skew: rows of the fullest segment / those of the mean one.
        images_per_second: of all hosts together, and of one host.
        row_ms: of one process for one image where all work, by step: decode, fit, infer, finish and row.
        efficiency: of a core where all of them work, against one that works alone.
        host_memory, host_disk: bytes of each host for models and processes, and for models in its cache.
        images_bytes: of the images; host_read: bytes a second that each host reads of them.
        error: the largest and the median relative error of such predictions, as far as it was measured.
        measured: on which machine the coefficients were measured, and when.
        notes: what was assumed, one note each.
    """

    model: str
    precision: str
    function: str
    images: float
    hours: float
    hours_between: tuple[float, float]
    hosts: int
    hosts_between: tuple[int, int]
    cores: int
    segments: int
    threads: int
    skew: float
    images_per_second: float
    images_per_second_host: float
    row_ms: dict[str, float]
    efficiency: float
    host_memory: float
    host_disk: float
    images_bytes: float
    host_read: float
    error: dict[str, float]
    measured: dict[str, Any]
    notes: tuple[str, ...]
