"""What every kind of training data offers: a Source of all images, and the Samples of one rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Target = bytes | int


class Samples(Protocol):
    """Images that can be read one by one, in any order, from several threads."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> tuple[bytes, Target]:
        """Return the image file, and the mask file, the boxes (dbinfer.boxes) or the number of the class."""

    def name(self, index: int) -> str:
        """Return what to call the image in a message."""


class Source(Protocol):
    """All images of a data set, in an order that every rank sees alike."""

    @property
    def task(self) -> str:
        """Classification, segmentation or detection."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their numbers; empty for masks."""

    def count(self) -> int:
        """Return how many images there are."""

    def fingerprint(self) -> str:
        """Return a text that is the same on every rank, or they do not see the same images in one order."""

    def open(self, rows: Sequence[int]) -> Samples:
        """Return the images of these rows (rising numbers); only they are read."""

    def heldout(self) -> Source | None:
        """Return the data set's own validation part, where it has one."""


@dataclass(frozen=True)
class Memory:
    """Samples that lie in memory, as encoded files."""

    pairs: Sequence[tuple[bytes, Target]]
    title: str

    def __len__(self) -> int:
        return len(self.pairs)

    def read(self, index: int) -> tuple[bytes, Target]:
        return self.pairs[index]

    def name(self, index: int) -> str:
        return f"{self.title} {index}"


@dataclass(frozen=True)
class Kept:
    """Some images of a source, which were read once and are kept for every job that asks for them."""

    source: Source
    rows: Sequence[int]
    samples: Samples

    @classmethod
    def of(cls, source: Source, rows: Sequence[int]) -> Kept:
        """Read these rows."""
        return cls(source, rows, source.open(rows))

    @property
    def task(self) -> str:
        return self.source.task

    @property
    def labels(self) -> tuple[str, ...]:
        return self.source.labels

    def count(self) -> int:
        return self.source.count()

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def open(self, rows: Sequence[int]) -> Samples:
        return self.samples if list(rows) == list(self.rows) else self.source.open(rows)

    def heldout(self) -> Source | None:
        return None
