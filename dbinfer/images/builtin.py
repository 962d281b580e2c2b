"""Images that need no download: scikit-learn's digits and photographs, strokes and written digits on them, the
same in every run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import DataError, UsageError

PARTS = ("train", "heldout")
EVERY = 5  # every fifth digit is held out; the one rule of training, benchmark, demo and tests
DIGIT_SIZE = 28  # of a digit's PNG, in pixels; scikit-learn has 8 x 8
JPEG_QUALITY = 90
PHOTOGRAPHS = ("china", "flower")
NOISE = 2.0  # grey levels, as a camera's sensor has them

Image = NDArray[np.uint8]


def digits(part: str) -> tuple[Image, NDArray[np.int64]]:
    """Return the digits of one part, uint8 (n, 28, 28) white on black, and their labels.

    They are scikit-learn's 1797 scans of 43 people's digits (UCI optdigits); every fifth is held out.

    Raises:
        UsageError: `part` is neither `train` nor `heldout`.
        DataError: scikit-learn is not installed.
    """
    images, labels = _digits()
    heldout = np.arange(len(images)) % EVERY == EVERY - 1
    chosen = heldout if checked_part(part) == "heldout" else ~heldout
    return images[chosen], labels[chosen]


def digit_files(part: str) -> Iterator[tuple[bytes, int]]:
    """Yield each digit of a part as PNG, with its label."""
    for image, label in zip(*digits(part), strict=True):
        yield encode(".png", image), int(label)


def write_digits(folder: Path | str, part: str = "heldout") -> list[tuple[Path, int]]:
    """Write the digits of a part as folder/LABEL/NNNN.png; return each file with its label."""
    written = []
    for number, (data, label) in enumerate(digit_files(part)):
        path = Path(folder) / str(label) / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written.append((path, label))
    return written


@cache
def photographs() -> tuple[Image, ...]:
    """Return scikit-learn's two photographs, uint8 (427, 640, 3), BGR as OpenCV writes, not to be written to."""
    return tuple(_frozen(_photograph(f"{name}.jpg")) for name in PHOTOGRAPHS)


def photograph_files(size: tuple[int, int], count: int, seed: int = 0) -> list[bytes]:
    """Return JPEG files of that (width, height): parts of the photographs, scaled, lighter or darker, with noise.

    All of them differ; the same seed gives the same files.
    """
    random = np.random.default_rng(seed)
    sources = photographs()
    return [encode(".jpg", _variation(sources[i % len(sources)], size, random)) for i in range(count)]


def encode(suffix: str, image: Image, quality: int = JPEG_QUALITY) -> bytes:
    """Return the file (`.png`, `.jpg`) of an image, uint8 (height, width) or (height, width, 3) BGR.

    Raises:
        DataError: OpenCV cannot write it.
    """
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix == ".jpg" else []
    try:
        return bytes(cv2.imencode(suffix, image, options)[1].tobytes())
    except cv2.error as err:
        raise DataError(f"OpenCV cannot encode an image of shape {image.shape} as {suffix}") from err


def checked_part(part: str) -> str:
    """Return `part` if it names one."""
    if part not in PARTS:
        raise UsageError(f"part is {part!r}, but must be one of {', '.join(PARTS)}")
    return part


@cache
def _digits() -> tuple[Image, NDArray[np.int64]]:
    rows = np.loadtxt(_file("data", "digits.csv.gz"), delimiter=",")
    size = (DIGIT_SIZE, DIGIT_SIZE)
    # 8 x 8 pixels with the levels 0 to 16, then the label
    scans = (rows[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.float32)
    scaled = [cv2.resize(scan, size, interpolation=cv2.INTER_CUBIC) for scan in scans]
    # Cubic interpolation overshoots at edges, and uint8 would wrap around
    return np.clip(np.stack(scaled), 0, 255).astype(np.uint8), rows[:, -1].astype(np.int64)


def _frozen(image: Image) -> Image:
    # The cache hands the same array to every caller
    image.flags.writeable = False
    return image


def _photograph(name: str) -> Image:
    photo = cv2.imread(str(_file("images", name)))
    if photo is None:
        raise DataError(f"scikit-learn's photograph {name} cannot be read")
    pixels: Image = photo.astype(np.uint8, copy=False)
    return pixels


def _file(*parts: str) -> Path:
    """Return a file of scikit-learn's data sets: to read it takes a hundredth of the time that its import takes."""
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise DataError(
            "the sample images come from scikit-learn, which is not installed",
            "Install it: pip install scikit-learn",
        )
    return Path(found.origin).parent.joinpath("datasets", *parts)


def _variation(photo: Image, size: tuple[int, int], random: np.random.Generator) -> Image:
    height, width = photo.shape[:2]
    share = random.uniform(0.6, 0.95)
    part_width, part_height = int(width * share), int(height * share)
    x, y = random.integers(0, width - part_width), random.integers(0, height - part_height)
    part = np.ascontiguousarray(photo[y : y + part_height, x : x + part_width])
    scaled = cv2.resize(part, size, interpolation=cv2.INTER_CUBIC).astype(np.float32)
    scaled *= random.uniform(0.7, 1.2)
    scaled += random.normal(0, NOISE, scaled.shape).astype(np.float32)
    pixels: Image = np.clip(scaled, 0, 255).astype(np.uint8)
    return pixels


SIZE = 128  # of a photograph with strokes, in pixels
STROKES = {"train": 480, "heldout": 96}
BORDER = 440  # columns of the photographs left of it are for training, those right of it held out
CONTRAST = 80  # grey levels between a stroke and the photograph around it, at least
STROKES_QUALITY = 95


def stroke_files(part: str, rows: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield photographs with one to three digits written on them, and the masks of the strokes.

    Position, scale and grey are drawn from a fixed seed and the number of the image. Held-out images show other
    digits on other regions of the photographs.

    Args:
        part: `train` or `heldout`.
        rows: numbers of the images, from 0 on.

    Yields:
        (JPEG, PNG of 0 and 255), both 128 x 128 pixels.
    """
    drawn, _ = digits(part)
    photos = regions(part)
    for number in rows:
        rng = np.random.default_rng([PARTS.index(part), number])
        image, mask = _compose(rng, drawn, photos)
        yield encode(".jpg", image, STROKES_QUALITY), encode(".png", mask)


def write_strokes(
    folder: Path | str, part: str = "heldout", count: int | None = None
) -> list[tuple[Path, Path]]:
    """Write the strokes of a part as NNNN.jpg and NNNN_mask.png; return each image with its mask.

    Args:
        folder: made if missing.
        part: `train` or `heldout`.
        count: how many; else 480 or 96.
    """
    rows = range(STROKES[checked_part(part)] if count is None else count)
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for number, (image, mask) in enumerate(stroke_files(part, rows)):
        paths = Path(folder) / f"{number:04d}.jpg", Path(folder) / f"{number:04d}_mask.png"
        paths[0].write_bytes(image)
        paths[1].write_bytes(mask)
        written.append(paths)
    return written


def _compose(rng: Any, digits: Image, photos: Sequence[Image]) -> tuple[Image, Image]:
    """Cut a region out of a photograph and write digits on it."""
    image = cut_out(rng, photos)
    mask = np.zeros(image.shape[:2], np.uint8)
    for _ in range(rng.integers(1, 4)):
        _write(rng, digits[rng.integers(len(digits))], image, mask)
    return np.clip(image, 0, 255).astype(np.uint8), mask


def _write(rng: Any, digit: Image, image: NDArray[np.float32], mask: Image) -> None:
    """Put one digit somewhere on the image."""
    side = int(rng.integers(36, 73))
    ink = scaled(digit, side)
    y, x = rng.integers(SIZE - side + 1), rng.integers(SIZE - side + 1)
    paint(rng, ink, image[y : y + side, x : x + side])
    mask[y : y + side, x : x + side][ink > 0.5] = 255


def regions(part: str) -> list[Image]:
    """Return those parts of the photographs that a part of the data shows."""
    return [photo[:, :BORDER] if part == "train" else photo[:, BORDER:] for photo in photographs()]


def cut_out(rng: Any, photos: Sequence[Image]) -> NDArray[np.float32]:
    """Return a square of one of the photographs, or its mirror image."""
    photo = photos[rng.integers(len(photos))]
    y, x = (rng.integers(side - SIZE + 1) for side in photo.shape[:2])
    image: NDArray[np.float32] = photo[y : y + SIZE, x : x + SIZE].astype(np.float32)
    return image[:, ::-1].copy() if rng.random() < 0.5 else image


def scaled(digit: Image, side: int) -> NDArray[np.float32]:
    """Return how much ink is where, 0 to 1."""
    ink: NDArray[np.float32] = cv2.resize(digit, (side, side), interpolation=cv2.INTER_CUBIC).astype(
        np.float32
    )
    return ink / np.float32(255)


def paint(rng: Any, ink: NDArray[np.float32], part: NDArray[np.float32]) -> None:
    """Put ink on a part of an image, in a grey that can be told from what is around it."""
    around = float(part[ink > 0.5].mean())
    greys = [grey for grey in range(256) if abs(grey - around) >= CONTRAST]
    grey = float(greys[rng.integers(len(greys))])
    alpha = np.clip(ink * 2 - 0.5, 0, 1)[:, :, None]  # a sharp edge of about one pixel around ink = 0.5
    part[...] = part * (1 - alpha) + grey * alpha


WRITTEN = {"train": 2000, "heldout": 400}
SIDES = (28, 60)  # of a digit with its margins, in pixels
MOST = 4  # digits on a photograph
TRIES = 20  # places that are tried for a digit; after that the photograph is full
SEED = 1  # other photographs than those of strokes


class Written(NamedTuple):
    """A photograph with digits written on it.

    Attributes:
        image: JPEG.
        boxes: one object for each digit: label, x, y, width and height of its ink, in pixels.
    """

    image: bytes
    boxes: list[dict[str, str | int]]


def written(part: str, rows: Sequence[int]) -> Iterator[Written]:
    """Yield photographs with one to four digits that do not overlap, 128 x 128 pixels.

    Place, scale and grey are drawn from a fixed seed and the number of the image. Held-out images show other digits on
    other regions of the photographs.

    Args:
        part: `train` or `heldout`.
        rows: numbers of the images, from 0 on.
    """
    drawn, labels = digits(part)
    photos = regions(part)
    for number in rows:
        rng = np.random.default_rng([PARTS.index(part), number, SEED])
        image = cut_out(rng, photos)
        boxes: list[dict[str, str | int]] = []
        for _ in range(rng.integers(1, MOST + 1)):
            chosen = rng.integers(len(drawn))
            place = _write_digits(rng, drawn[chosen], image, boxes)
            if place:
                boxes.append({"label": str(labels[chosen]), **place})
        pixels = np.clip(image, 0, 255).astype(np.uint8)
        yield Written(encode(".jpg", pixels, STROKES_QUALITY), boxes)


def write_written(folder: Path | str, part: str = "heldout", count: int | None = None) -> Path:
    """Write the photographs of a part as folder/NNNN.jpg, and their boxes into folder/boxes.json; return that file.

    Args:
        folder: made if missing.
        part: `train` or `heldout`.
        count: how many; else 2000 or 400.
    """
    rows = range(WRITTEN[checked_part(part)] if count is None else count)
    Path(folder).mkdir(parents=True, exist_ok=True)
    boxes = {}
    for number, one in enumerate(written(part, rows)):
        (Path(folder) / f"{number:04d}.jpg").write_bytes(one.image)
        boxes[f"{number:04d}.jpg"] = one.boxes
    path = Path(folder) / "boxes.json"
    path.write_text(json.dumps(boxes) + "\n", encoding="utf-8")
    return path


def _write_digits(rng: Any, digit: Image, image: Any, others: Sequence[Any]) -> dict[str, str | int]:
    """Put one digit where it overlaps no other, and return the place of its ink; nothing where none is left."""
    ink = scaled(digit, int(rng.integers(*SIDES)))
    left, top, width, height = cv2.boundingRect((ink > 0.5).astype(np.uint8))
    for _ in range(TRIES):
        y, x = rng.integers(SIZE - len(ink) + 1), rng.integers(SIZE - len(ink) + 1)
        place: dict[str, str | int] = {
            "x": int(x) + left,
            "y": int(y) + top,
            "width": width,
            "height": height,
        }
        if not any(_overlap(place, other) for other in others):
            paint(rng, ink, image[y : y + len(ink), x : x + len(ink)])
            return place
    return {}


def _overlap(one: Any, other: Any) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "width"), ("y", "height"))
    )
