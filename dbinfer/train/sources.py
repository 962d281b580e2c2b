"""Where images come from: the demo's data, folders by class, Carvana's folders, SQL queries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dbinfer.errors import DataError
from dbinfer.train import datasets

IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif")
MASK = re.compile(r"^(?P<name>.+)_mask$")
QUERY = re.compile(r"^\s*(select|with|table|values)\b", re.IGNORECASE)

Target = bytes | int


class Samples(Protocol):
    """Images that can be read one by one, in any order, from several threads."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> tuple[bytes, Target]:
        """Return the image file, and the mask file or the number of the class."""

    def name(self, index: int) -> str:
        """Return what to call the image in a message."""


class Source(Protocol):
    """All images of a data set, in an order that every rank sees alike."""

    @property
    def task(self) -> str:
        """Classification or segmentation."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their numbers; empty for masks."""

    def count(self) -> int:
        """Return how many images there are."""

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
class Files:
    """Samples that lie in files."""

    pairs: Sequence[tuple[Path, Path | int]]

    def __len__(self) -> int:
        return len(self.pairs)

    def read(self, index: int) -> tuple[bytes, Target]:
        image, target = self.pairs[index]
        try:
            return image.read_bytes(), target if isinstance(target, int) else target.read_bytes()
        except OSError as err:
            raise DataError(f"{err.filename} cannot be read: {err.strerror}.") from err

    def name(self, index: int) -> str:
        return str(self.pairs[index][0])


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits."""

    part: str = "train"
    task: str = "classification"
    labels: tuple[str, ...] = tuple("0123456789")

    def count(self) -> int:
        return len(datasets.digit_images(self.part)[1])

    def open(self, rows: Sequence[int]) -> Samples:
        everything = list(datasets.digit_files(self.part))
        return Memory([everything[row] for row in rows], f"{self.part} digit")

    def heldout(self) -> Source | None:
        return Digits("heldout")


@dataclass(frozen=True)
class Strokes:
    """Digit strokes on photographs; `size` images, of which the held-out part has a fifth."""

    part: str = "train"
    size: int = datasets.STROKES_COUNT["train"]
    task: str = "segmentation"
    labels: tuple[str, ...] = ()

    def count(self) -> int:
        return self.size

    def open(self, rows: Sequence[int]) -> Samples:
        return Memory(list(datasets.stroke_files(self.part, rows=rows)), f"{self.part} stroke image")

    def heldout(self) -> Source | None:
        return Strokes("heldout", max(1, self.size // 5))


@dataclass(frozen=True)
class Folder:
    """Images in files: by class (folder/CLASS/NAME.png) or with masks (NAME.jpg, NAME_mask.gif)."""

    pairs: Sequence[tuple[Path, Path | int]]
    task: str
    labels: tuple[str, ...] = ()

    def count(self) -> int:
        return len(self.pairs)

    def open(self, rows: Sequence[int]) -> Samples:
        return Files([self.pairs[row] for row in rows])

    def heldout(self) -> Source | None:
        return None


def find_source(data: str, dsn: str = "", labels: tuple[str, ...] = ()) -> Source:
    """Return the source that --data names.

    Args:
        data: digits, strokes, strokes:COUNT, a SQL query or a folder.
        dsn: the server of a SQL query.
        labels: where given, the classes that must be used (those of the training part, for validation).

    Raises:
        DataError: there is no such data, or it holds no images, or masks are missing.
    """
    name, _, count = data.partition(":")
    if data == "digits":
        return Digits()
    if name == "strokes" and (not count or (count.isdigit() and int(count) > 0)):
        return Strokes(size=int(count)) if count else Strokes()
    if QUERY.match(data):
        from dbinfer.train.query import Query

        return Query.find(data, dsn, labels)
    from dbinfer.train.folders import read_folder

    return read_folder(Path(data), labels)
