"""True boxes of an image: a list of labels and places, read from JSON and checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer.errors import DataError

SIDES = ("x", "y", "width", "height")
COLUMNS = 5  # left, top, right, bottom, class
MOST = 100  # boxes of an image, true ones, and found ones that COCO counts
CURE = (
    'Boxes are a list such as [{"label": "cat", "x": 10, "y": 20, "width": 30, "height": 40}], in pixels from the '
    "upper left corner of the image."
)

Corners = NDArray[np.float32]


def labels_of(boxes: Any, name: str) -> list[str]:
    """Return the label of each box.

    Args:
        boxes: a list of objects, as JSON gives it.
        name: what to call the image in a message.

    Raises:
        DataError: it is no list of objects, or one has no label.
    """
    if not isinstance(boxes, list):
        raise DataError(f"the boxes of {name} are {_short(boxes)}, but must be a list", CURE)
    return [_label(box, _place(number, name)) for number, box in enumerate(boxes, 1)]


def packed(boxes: Any, numbers: Mapping[str, int], name: str) -> bytes:
    """Return the boxes of one image as the bytes that `unpacked` reads.

    Args:
        boxes: a list of objects with label, x, y, width and height, as JSON gives it; what else they have is ignored.
        numbers: of the classes, by their labels.
        name: what to call the image in a message.

    Raises:
        DataError: a box has no label or one that is no class, or a side that is no number, or no area.
    """
    labels = labels_of(boxes, name)
    if len(labels) > MOST:
        raise DataError(f"{name} has {len(labels)} boxes, but an image must not have more than {MOST}")
    rows = []
    for number, (label, box) in enumerate(zip(labels, boxes, strict=True), 1):
        place = _place(number, name)
        if label not in numbers:
            raise DataError(f"{place} has the label {label!r}, but the classes are {', '.join(numbers)}")
        rows.append([*_corners(box, place), numbers[label]])
    return np.asarray(rows, np.float32).reshape(-1, COLUMNS).tobytes()


def unpacked(data: bytes) -> Corners:
    """Return what `packed` has packed: (n, 5) left, top, right, bottom in pixels of the image, and class."""
    return np.frombuffer(data, np.float32).reshape(-1, COLUMNS)


def in_order(labels: set[str]) -> tuple[str, ...]:
    """Return labels as classes are numbered: whole numbers by their size, else all by their characters."""
    if all(label.isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def padded(boxes: Sequence[Any]) -> Corners:
    """Return (100, 5): these boxes, and class -1 where there is none; all images of a batch have one shape."""
    rows = np.zeros((MOST, COLUMNS), np.float32)
    rows[:, 4] = -1
    rows[: len(boxes)] = boxes
    return rows


def _label(box: Any, place: str) -> str:
    if not isinstance(box, dict):
        raise DataError(f"{place} is {_short(box)}, but must be an object", CURE)
    label = box.get("label")
    if isinstance(label, bool) or not isinstance(label, str | int) or label == "":
        raise DataError(
            f"{place} has the label {_short(label)}, but must have a text or a whole number", CURE
        )
    return str(label)


def _corners(box: Mapping[str, Any], place: str) -> tuple[float, float, float, float]:
    for key in SIDES:
        value = box.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(f"{place} has the {key} {_short(value)}, but must have a number", CURE)
    x, y, width, height = (float(box[key]) for key in SIDES)
    if width <= 0 or height <= 0:
        raise DataError(f"{place} has {width:g} x {height:g} pixels, but must have an area")
    return x, y, x + width, y + height


def _place(number: int, name: str) -> str:
    return f"box {number} of {name}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
