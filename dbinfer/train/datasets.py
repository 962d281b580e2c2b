"""The demo's real data: handwritten digits, and digit strokes on photographs; fixed parts, nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer.errors import DataError, UsageError

PARTS = ("train", "heldout")
SIZE = 28  # of a digit's PNG, in pixels; scikit-learn has 8 x 8
STROKES_SIZE = 128  # of a photograph with strokes, in pixels
STROKES_COUNT = {"train": 480, "heldout": 96}
EVERY = 5  # every fifth digit is held out
BORDER = 440  # columns of the photographs left of it are for training, those right of it held out
CONTRAST = 80  # grey levels between a stroke and the photograph around it, at least
JPEG_QUALITY = 95

Image = NDArray[np.uint8]


def digit_images(part: str) -> tuple[list[Image], list[int]]:
    """Return the digits of one part, uint8 (28, 28) white on black, and their labels.

    They are scikit-learn's 1797 scans of 43 people's digits (UCI optdigits); every fifth is held out.
    """
    images, labels = _digits()
    rows = [row for row in range(len(images)) if (row % EVERY == EVERY - 1) == (_part(part) == "heldout")]
    return [images[row] for row in rows], [labels[row] for row in rows]


def digit_files(part: str) -> Iterator[tuple[bytes, int]]:
    """Yield each digit of a part as PNG, with its label."""
    for image, label in zip(*digit_images(part), strict=True):
        yield _encode(".png", image), label


def stroke_files(part: str, rows: Sequence[int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield photographs with one to three digits written on them, and the masks of the strokes.

    Place, scale and grey are drawn from a fixed seed and the number of the image. Held-out images show other
    digits on other regions of the photographs.

    Args:
        part: `train` or `heldout`.
        rows: numbers of the images, from 0 on.

    Yields:
        (JPEG, PNG of 0 and 255), both 128 x 128 pixels.
    """
    digits, _ = digit_images(part)
    photos = [photo[:, :BORDER] if part == "train" else photo[:, BORDER:] for photo in _photos()]
    for number in rows:
        rng = np.random.default_rng([PARTS.index(part), number])
        image, mask = _compose(rng, digits, photos)
        yield _encode(".jpg", image), _encode(".png", mask)


def write_digits(folder: Path | str, part: str = "heldout") -> list[tuple[Path, int]]:
    """Write the digits of a part as folder/LABEL/NNNN.png; return each file with its label."""
    written = []
    for number, (data, label) in enumerate(digit_files(part)):
        path = Path(folder) / str(label) / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written.append((path, label))
    return written


def write_strokes(
    folder: Path | str, part: str = "heldout", count: int | None = None
) -> list[tuple[Path, Path]]:
    """Write the strokes of a part as NNNN.jpg and NNNN_mask.png; return each image with its mask.

    Args:
        folder: made if missing.
        part: `train` or `heldout`.
        count: how many; else 480 or 96.
    """
    rows = range(STROKES_COUNT[_part(part)] if count is None else count)
    Path(folder).mkdir(parents=True, exist_ok=True)
    written = []
    for number, (image, mask) in enumerate(stroke_files(part, rows)):
        paths = Path(folder) / f"{number:04d}.jpg", Path(folder) / f"{number:04d}_mask.png"
        paths[0].write_bytes(image)
        paths[1].write_bytes(mask)
        written.append(paths)
    return written


def _compose(rng: Any, digits: list[Image], photos: list[Image]) -> tuple[Image, Image]:
    """Cut a region out of a photograph and write digits on it."""
    photo = photos[rng.integers(len(photos))]
    y, x = (rng.integers(side - STROKES_SIZE + 1) for side in photo.shape[:2])
    image = photo[y : y + STROKES_SIZE, x : x + STROKES_SIZE].astype(np.float32)
    if rng.random() < 0.5:
        image = image[:, ::-1].copy()
    mask = np.zeros(image.shape[:2], np.uint8)
    for _ in range(rng.integers(1, 4)):
        _write(rng, digits[rng.integers(len(digits))], image, mask)
    return np.clip(image, 0, 255).astype(np.uint8), mask


def _write(rng: Any, digit: Image, image: NDArray[np.float32], mask: Image) -> None:
    """Put one digit on the image, in a grey that can be told from what is around it."""
    side = int(rng.integers(36, 73))
    ink = cv2.resize(digit, (side, side), interpolation=cv2.INTER_CUBIC).astype(np.float32) / 255
    y, x = rng.integers(STROKES_SIZE - side + 1), rng.integers(STROKES_SIZE - side + 1)
    part = image[y : y + side, x : x + side]
    covered = ink > 0.5
    around = float(part[covered].mean())
    greys = [grey for grey in range(256) if abs(grey - around) >= CONTRAST]
    grey = float(greys[rng.integers(len(greys))])
    alpha = np.clip(ink * 2 - 0.5, 0, 1)[:, :, None]  # a sharp edge of about one pixel around ink = 0.5
    part[...] = part * (1 - alpha) + grey * alpha
    mask[y : y + side, x : x + side][covered] = 255


@cache
def _digits() -> tuple[list[Image], list[int]]:
    bunch = _sklearn().load_digits()
    scans = (bunch.images * (255 / 16)).astype(np.float32)
    images = [cv2.resize(scan, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC) for scan in scans]
    return [np.clip(image, 0, 255).astype(np.uint8) for image in images], [int(y) for y in bunch.target]


@cache
def _photos() -> list[Image]:
    """Return scikit-learn's two photographs, uint8 (427, 640, 3), BGR as OpenCV writes."""
    return [np.ascontiguousarray(photo[:, :, ::-1]) for photo in _sklearn().load_sample_images().images]


def _sklearn() -> Any:
    try:
        import sklearn.datasets
    except ImportError as err:
        raise DataError(
            "the digits and strokes come from scikit-learn, which is not installed.",
            "Install it with `pip install 'dbinfer[train]'`.",
        ) from err
    return sklearn.datasets


def _part(part: str) -> str:
    if part not in PARTS:
        raise UsageError(f"part is {part!r}, but must be one of {', '.join(PARTS)}.")
    return part


def _encode(suffix: str, image: Image) -> bytes:
    options = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY] if suffix == ".jpg" else []
    done, data = cv2.imencode(suffix, image, options)
    if not done:
        raise DataError(f"OpenCV cannot encode an image of shape {image.shape} as {suffix}.")
    return bytes(data.tobytes())
