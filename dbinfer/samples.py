"""Real images that need no download: scikit-learn's handwritten digits and its two photographs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer.errors import DataError, UsageError

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
