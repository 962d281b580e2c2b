"""Photographs with digits written beside each other, and which digit is where; the same in every run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from dbinfer import samples
from dbinfer.samples import PARTS, Image
from dbinfer.train.data import strokes

COUNT = {"train": 2000, "heldout": 400}
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
    digits, labels = samples.digits(part)
    photos = strokes.regions(part)
    for number in rows:
        rng = np.random.default_rng([PARTS.index(part), number, SEED])
        image = strokes.cut_out(rng, photos)
        boxes: list[dict[str, str | int]] = []
        for _ in range(rng.integers(1, MOST + 1)):
            chosen = rng.integers(len(digits))
            place = _write(rng, digits[chosen], image, boxes)
            if place:
                boxes.append({"label": str(labels[chosen]), **place})
        pixels = np.clip(image, 0, 255).astype(np.uint8)
        yield Written(samples.encode(".jpg", pixels, strokes.JPEG_QUALITY), boxes)


def write_written(folder: Path | str, part: str = "heldout", count: int | None = None) -> Path:
    """Write the photographs of a part as folder/NNNN.jpg, and their boxes into folder/boxes.json; return that file.

    Args:
        folder: made if missing.
        part: `train` or `heldout`.
        count: how many; else 2000 or 400.
    """
    rows = range(COUNT[samples.checked_part(part)] if count is None else count)
    Path(folder).mkdir(parents=True, exist_ok=True)
    boxes = {}
    for number, one in enumerate(written(part, rows)):
        (Path(folder) / f"{number:04d}.jpg").write_bytes(one.image)
        boxes[f"{number:04d}.jpg"] = one.boxes
    path = Path(folder) / "boxes.json"
    path.write_text(json.dumps(boxes) + "\n", encoding="utf-8")
    return path


def _write(rng: Any, digit: Image, image: Any, others: Sequence[Any]) -> dict[str, str | int]:
    """Put one digit where it overlaps no other, and return the place of its ink; nothing where none is left."""
    ink = strokes.scaled(digit, int(rng.integers(*SIDES)))
    left, top, width, height = cv2.boundingRect((ink > 0.5).astype(np.uint8))
    for _ in range(TRIES):
        y, x = rng.integers(strokes.SIZE - len(ink) + 1), rng.integers(strokes.SIZE - len(ink) + 1)
        place: dict[str, str | int] = {
            "x": int(x) + left,
            "y": int(y) + top,
            "width": width,
            "height": height,
        }
        if not any(_overlap(place, other) for other in others):
            strokes.paint(rng, ink, image[y : y + len(ink), x : x + len(ink)])
            return place
    return {}


def _overlap(one: Any, other: Any) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "width"), ("y", "height"))
    )
