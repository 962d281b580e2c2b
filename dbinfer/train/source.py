"""What every kind of training data offers: a Source of all images, and the Samples of one rank, spooled to a file."""

from __future__ import annotations

import os
import pickle
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

from dbinfer.base.errors import DataError

Target = bytes | int
ONE_LABEL = ("classification", "ordinal")  # tasks in which an image has one label
LABELLED = (*ONE_LABEL, "multilabel")


def vector(values: Iterable[float]) -> bytes:
    """Return numbers as float32, as the loader takes them."""
    return array("f", values).tobytes()


class Samples(Protocol):
    """Images that can be read one by one, in any order, from several threads."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> tuple[bytes, Target]:
        """Return the image file, and the mask file, the boxes (dbinfer.images.boxes), the number of the class, or a
        `vector` of labels or of one number.
        """

    def name(self, index: int) -> str:
        """Return the image's name for messages."""


class Source(Protocol):
    """All images of a data set, in an order that every rank sees alike."""

    @property
    def task(self) -> str:
        """What images have: classification (one label), ordinal (one step of a scale), multilabel (any number of
        labels), regression (a number), segmentation or detection.
        """

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of their numbers; empty for masks and numbers."""

    def count(self) -> int:
        """Return how many images there are."""

    def fingerprint(self) -> str:
        """Return a text that is the same on all ranks that see the same images in the same order."""

    def open(self, rows: Sequence[int]) -> Samples:
        """Return the images of these rows (rising numbers); only they are read."""

    def heldout(self) -> Source | None:
        """Return the data set's own validation part, where it has one."""

    def counts(self) -> Sequence[int]:
        """Return how many images have each label, in the order of the labels; of images with labels."""


def counted(samples: Samples, labels: int) -> list[int]:
    """Return how many samples have each of so many labels; reads all of them."""
    found = [0] * labels
    for index in range(len(samples)):
        target = samples.read(index)[1]
        has = (
            [target]
            if isinstance(target, int)
            else [place for place, one in enumerate(array("f", target)) if one]
        )
        for number in has:
            found[number] += 1
    return found


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
    """Some images of a source, read once and kept for all jobs that need them."""

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

    def counts(self) -> Sequence[int]:
        return self.source.counts()

    def open(self, rows: Sequence[int]) -> Samples:
        return self.samples if list(rows) == list(self.rows) else self.source.open(rows)

    def heldout(self) -> Source | None:
        return None


LENGTH = 8  # bytes of a number in a file


@dataclass(frozen=True)
class Entry:
    """Where one sample lies: its row in the query, its place in the file, and its class where it has one."""

    row: int
    start: int
    size: int
    mask_size: int
    label: int | None = None


class Spool:
    """Samples in a file without a name, or in `file`."""

    def __init__(self, file: IO[bytes] | None = None, entries: Sequence[Entry] = ()) -> None:
        self._file = file or tempfile.TemporaryFile(prefix="dbinfer-train-")  # noqa: SIM115  (lives as long as the spool)
        self._whole: Spool | None = None  # keeps the file open as long as one of its parts lives
        if file is None:
            weakref.finalize(self, self._file.close)
        self.entries = list(entries)

    def add(self, row: int, image: Any, target: Any) -> None:
        """Append one row: `target` is the number of a class, or bytes as `Samples.read` returns them."""
        masked = not isinstance(target, int)
        start = self._file.tell()
        self._file.write(image)
        if masked:
            self._file.write(target)
        sizes = (len(image), len(target) if masked else 0)
        self.entries.append(Entry(row, start, *sizes, None if masked else target))

    def part(self, rows: Sequence[int]) -> Spool:
        """Return some of the samples; they lie in the same file."""
        part = Spool(self._file, [self.entries[row] for row in rows])
        part._whole = self
        return part

    def sort(self) -> None:
        """Put the samples into the order of their rows."""
        # pread sees what is in the file, not Python's buffer
        self._file.flush()
        self.entries.sort(key=lambda entry: entry.row)

    def __len__(self) -> int:
        return len(self.entries)

    def read(self, index: int) -> tuple[bytes, Target]:
        entry = self.entries[index]
        # pread, because several threads read and would share a position
        image = os.pread(self._file.fileno(), entry.size, entry.start)
        if entry.label is not None:
            return image, entry.label
        return image, os.pread(self._file.fileno(), entry.mask_size, entry.start + entry.size)

    def name(self, index: int) -> str:
        return f"row {self.entries[index].row} of the query"


@dataclass(frozen=True)
class Spooled:
    """All rows of a query in a file that the launching process has written, for the ranks of this host."""

    path: str
    task: str
    labels: tuple[str, ...]
    entries: tuple[Entry, ...]

    @classmethod
    def find(cls, path: str) -> Spooled:
        """Return what `write` left there."""
        with open(path, "rb") as file:
            file.seek(-LENGTH, os.SEEK_END)
            file.seek(int.from_bytes(file.read(LENGTH), "big"))
            # Safe to unpickle: only this user can open the file, and the launching process wrote it
            task, labels, entries = pickle.load(file)
        return cls(path, task, labels, entries)

    def count(self) -> int:
        return len(self.entries)

    def fingerprint(self) -> str:
        # All ranks of the host read this same file
        return self.path

    def counts(self) -> Sequence[int]:
        return counted(self.open(range(self.count())), len(self.labels))

    def open(self, rows: Sequence[int]) -> Samples:
        file = open(self.path, "rb")  # noqa: SIM115  (lives as long as the spool)
        spool = Spool(file, [self.entries[row] for row in rows])
        weakref.finalize(spool, file.close)
        return spool

    def heldout(self) -> Source | None:
        return None


def write(source: Source) -> IO[bytes]:
    """Read all rows of a source into a file: the images, a table of what is where, and last where that table begins."""
    # Without a name: however this process ends, no image stays behind
    file = tempfile.TemporaryFile(prefix="dbinfer-train-")  # noqa: SIM115
    samples = source.open(range(source.count()))
    spool = Spool(file)
    for index in range(len(samples)):
        spool.add(index, *samples.read(index))
    start = file.tell()
    pickle.dump((source.task, source.labels, tuple(spool.entries)), file)
    file.write(start.to_bytes(LENGTH, "big"))
    file.flush()
    return file


def path_of(file: IO[bytes]) -> str:
    """Return a path by which this user's other processes can open an unnamed file while this one has it open."""
    return f"/proc/{os.getpid()}/fd/{file.fileno()}"


def check_value(row: int, image: Any, target: Any) -> None:
    """Raise DataError where a value is NULL."""
    if image is None or target is None:
        raise DataError(f"row {row} of the query has a NULL", "Add WHERE ... IS NOT NULL.")
