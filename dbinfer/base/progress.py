"""How a verb tells where it is: one event, one type of listener; dbinfer/cli/progress.py shows them as a bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Where a verb is.

    Attributes:
        step: what it does now, as a person would say it: "loading", "epoch 3/15".
        done, total: how much of the step is done; total None: nobody knows how much there is.
        unit: of done and total: "images", "bytes", "steps"; empty where there is nothing to count.
        errors: how much of what is done is bad.
        note: one sentence to keep in view after the step, for example the figures of an epoch.
    """

    step: str
    done: int = 0
    total: int | None = None
    unit: str = ""
    note: str = ""
    errors: int = 0


OnProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Tell nobody."""
