"""The data that is at hand: scikit-learn's digits, and such digits on its photographs, with masks or boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbinfer import boxes, samples
from dbinfer.train.data import strokes, written
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


@dataclass(frozen=True)
class Written:
    """Digits written beside each other on photographs, with boxes; `size` images, and a fifth as many held out."""

    part: str = "train"
    size: int = written.COUNT["train"]
    task: str = "detection"
    labels: tuple[str, ...] = tuple("0123456789")

    def count(self) -> int:
        return self.size

    def fingerprint(self) -> str:
        return f"written {self.part} {self.size}"

    def open(self, rows: Sequence[int]) -> Samples:
        numbers = {label: number for number, label in enumerate(self.labels)}
        title = f"{self.part} written image"
        found = zip(rows, written.written(self.part, rows), strict=True)
        pairs = [(one.image, boxes.packed(one.boxes, numbers, f"{title} {row}")) for row, one in found]
        return Memory(pairs, title)

    def heldout(self) -> Source | None:
        return Written("heldout", max(1, self.size // 5))
