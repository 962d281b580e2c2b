"""What a plan finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbinfer.report import Report


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
