"""What a run tells of each epoch: history.csv, and which epoch was best."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """One epoch, averaged over all ranks.

    Attributes:
        epoch: its number, from 1 on.
        seconds: of training, without validation; val_seconds: of validation.
        images: seen by all ranks together.
        lr: learning rate of its last step.
        values: loss and metrics, those of the validation with the prefix val_.
    """

    epoch: int
    seconds: float
    val_seconds: float
    images: int
    lr: float
    values: dict[str, float] = field(default_factory=dict)

    @property
    def images_per_second(self) -> float:
        """Images per second of training."""
        return self.images / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Epoch:
        """Make it from JSON values."""
        return cls(**values)


def best_epoch(history: Sequence[Epoch], metric: str) -> int:
    """Return the epoch with the highest val_`metric` (the first of equals); 0 without a validation."""
    judged = [entry for entry in history if f"val_{metric}" in entry.values]
    if not judged:
        return 0
    return max(judged, key=lambda entry: entry.values[f"val_{metric}"]).epoch


def write_csv(path: Path, history: Sequence[Epoch]) -> None:
    """Write one line per epoch: epoch, loss and metrics, lr, seconds, images per second."""
    names = sorted({name for entry in history for name in entry.values})
    temporary = path.with_name(f".{path.name}")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", *names, "lr", "seconds", "val_seconds", "images_per_second"])
        for entry in history:
            numbers = [f"{entry.values[name]:.6g}" if name in entry.values else "" for name in names]
            times = [f"{entry.seconds:.3f}", f"{entry.val_seconds:.3f}", f"{entry.images_per_second:.1f}"]
            writer.writerow([entry.epoch, *numbers, f"{entry.lr:.6g}", *times])
    temporary.replace(path)


def line(entry: Epoch, epochs: int) -> str:
    """Return one epoch as a line for the terminal."""
    values = "  ".join(f"{name} {value:.4f}" for name, value in entry.values.items())
    return f"epoch {entry.epoch}/{epochs}  {values}  {entry.seconds:.1f} s  {entry.images_per_second:.0f} images/s"
