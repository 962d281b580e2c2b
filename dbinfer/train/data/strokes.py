"""Digit strokes on photographs, with masks: made of scikit-learn's digits and photographs, the same in every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from dbinfer import samples
from dbinfer.samples import PARTS, Image

SIZE = 128  # of a photograph with strokes, in pixels
COUNT = {"train": 480, "heldout": 96}
BORDER = 440  # columns of the photographs left of it are for training, those right of it held out
CONTRAST = 80  # grey levels between a stroke and the photograph around it, at least
JPEG_QUALITY = 95


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
    digits, _ = samples.digits(part)
    photos = regions(part)
    for number in rows:
        rng = np.random.default_rng([PARTS.index(part), number])
        image, mask = _compose(rng, digits, photos)
        yield samples.encode(".jpg", image, JPEG_QUALITY), samples.encode(".png", mask)


def write_strokes(
    folder: Path | str, part: str = "heldout", count: int | None = None
) -> list[tuple[Path, Path]]:
    """Write the strokes of a part as NNNN.jpg and NNNN_mask.png; return each image with its mask.

    Args:
        folder: made if missing.
        part: `train` or `heldout`.
        count: how many; else 480 or 96.
    """
    rows = range(COUNT[samples.checked_part(part)] if count is None else count)
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
    return [photo[:, :BORDER] if part == "train" else photo[:, BORDER:] for photo in samples.photographs()]


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
