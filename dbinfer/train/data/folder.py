"""Finds the images of a folder: by class, or with masks as the Carvana data set has them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dbinfer.errors import DataError
from dbinfer.train.data.source import Samples, Source, Target

IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif")
MASK = re.compile(r"^(?P<name>.+)_mask$")
CURE = (
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
        raise DataError(f"there is no data {str(folder)!r}", CURE)
    images = sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGES)
    if images:
        return Folder(_with_masks(folder, images), "segmentation")
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and _images(path))
    if not classes:
        raise DataError(f"{folder} contains no images", CURE)
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
        raise DataError(f"{folder} contains masks, but no images for them", CURE)
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
