"""The data that is at hand: scikit-learn's digits, and strokes on its photographs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbinfer import samples
from dbinfer.train.data import strokes
from dbinfer.train.data.source import Memory, Samples, Source


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits."""

    part: str = "train"
    task: str = "classification"
    labels: tuple[str, ...] = tuple("0123456789")

    def count(self) -> int:
        return len(samples.digits(self.part)[1])

    def fingerprint(self) -> str:
        return f"digits {self.part}"

    def open(self, rows: Sequence[int]) -> Samples:
        everything = list(samples.digit_files(self.part))
        return Memory([everything[row] for row in rows], f"{self.part} digit")

    def heldout(self) -> Source | None:
        return Digits("heldout")


@dataclass(frozen=True)
class Strokes:
    """Digit strokes on photographs; `size` images, of which the held-out part has a fifth."""

    part: str = "train"
    size: int = strokes.COUNT["train"]
    task: str = "segmentation"
    labels: tuple[str, ...] = ()

    def count(self) -> int:
        return self.size

    def fingerprint(self) -> str:
        return f"strokes {self.part} {self.size}"

    def open(self, rows: Sequence[int]) -> Samples:
        return Memory(list(strokes.stroke_files(self.part, rows=rows)), f"{self.part} stroke image")

    def heldout(self) -> Source | None:
        return Strokes("heldout", max(1, self.size // 5))
