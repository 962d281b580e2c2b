"""How a verb reports its progress: one event and one type of listener; dbinfer/cli/progress.py shows them as a bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a verb has come.

    Attributes:
        step: what it is doing, as a person would say it: "loading", "epoch 3/15".
        done, total: how much of the step is done, and of how much; total None: unknown.
        unit: of done and total: "images", "bytes", "steps"; empty if there is nothing to count.
        errors: how much of what is done was bad.
        note: one sentence to keep in view after the step, for example the figures of an epoch.
    """

    step: str
    done: int = 0
    total: int | None = None
    unit: str = ""
    note: str = ""
    errors: int = 0


OnProgress = Callable[[Progress], None]
Say = Callable[[str], None]


def silent(progress: Progress) -> None:
    """Ignore the progress."""


def notes(step: str, progress: OnProgress) -> Say:
    """Begin a step; return a function that reports a sentence as a note of this step."""
    progress(Progress(step))
    return lambda sentence: progress(Progress(step, note=sentence))
