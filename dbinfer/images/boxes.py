"""Boxes of objects: true ones as people write them down, and how good found ones are, by COCO's own code
(pycocotools).
"""

from __future__ import annotations

import contextlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import DataError

SIDES = ("x", "y", "width", "height")
COLUMNS = 5  # left, top, right, bottom, class
MOST = 100  # boxes of an image, true ones, and found ones that COCO counts
HINT = (
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
        raise DataError(f"the boxes of {name} are {_short(boxes)}, but must be a list", HINT)
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
        raise DataError(f"{place} is {_short(box)}, but must be an object", HINT)
    label = box.get("label")
    if isinstance(label, bool) or not isinstance(label, str | int) or label == "":
        raise DataError(
            f"{place} has the label {_short(label)}, but must have a text or a whole number", HINT
        )
    return str(label)


def _corners(box: Mapping[str, Any], place: str) -> tuple[float, float, float, float]:
    for key in SIDES:
        value = box.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(f"{place} has the {key} {_short(value)}, but must have a number", HINT)
    x, y, width, height = (float(box[key]) for key in SIDES)
    if width <= 0 or height <= 0:
        raise DataError(f"{place} has {width:g} x {height:g} pixels, but must have an area")
    return x, y, x + width, y + height


def _place(number: int, name: str) -> str:
    return f"box {number} of {name}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


@dataclass(frozen=True)
class Boxes:
    """The boxes of one image, found and true, in pixels of any kind that both share.

    Attributes:
        found: float (n, 6): left, top, right, bottom, score, class.
        true: float (m, 5): left, top, right, bottom, class.
    """

    found: NDArray[np.floating[Any]]
    true: NDArray[np.floating[Any]]


def average_precision(images: Sequence[Boxes]) -> dict[str, float]:
    """Return `map50`, where boxes must overlap by half (IoU), and `map50_95`, the mean over 0.5, 0.55 ... 0.95.

    Both are means over the classes that have a true box (Lin et al. 2014, arXiv:1405.0312; cocodataset.org).

    Raises:
        DataError: no image has a true box, or pycocotools is not installed.
    """
    if not any(len(image.true) for image in images):
        raise DataError("no image has a true box: there is no precision to compute")
    check_installed()
    from pycocotools.cocoeval import COCOeval

    # It prints each of its steps
    with contextlib.redirect_stdout(io.StringIO()):
        judged = COCOeval(_index(_true(images)), _index(_found(images)), "bbox")
        judged.params.imgIds = list(range(1, len(images) + 1))
        judged.params.areaRng, judged.params.areaRngLbl = [[0.0, float("inf")]], ["all"]
        judged.params.maxDets = [MOST]
        judged.evaluate()
        judged.accumulate()
    # Overlaps, recalls, classes; -1 where a class has no true box
    precision = judged.eval["precision"][:, :, :, 0, 0]
    known = precision[:, :, (precision > -1).all(axis=(0, 1))]
    return {"map50": float(known[0].mean()), "map50_95": float(known.mean())}


def check_installed() -> None:
    """Raise DataError where pycocotools is not installed."""
    if find_spec("pycocotools") is None:
        raise DataError(
            "average precision needs pycocotools, which is not installed",
            "Install it: pip install pycocotools",
        )


def _true(images: Sequence[Boxes]) -> list[dict[str, Any]]:
    return [
        {**_xywh(box), "image_id": number, "category_id": int(box[4]), "iscrowd": 0}
        for number, image in enumerate(images, 1)
        for box in image.true
    ]


def _found(images: Sequence[Boxes]) -> list[dict[str, Any]]:
    return [
        {**_xywh(box), "image_id": number, "category_id": int(box[5]), "score": float(box[4])}
        for number, image in enumerate(images, 1)
        for box in image.found
    ]


def _xywh(box: Any) -> dict[str, Any]:
    left, top, right, bottom = (float(value) for value in box[:4])
    return {"bbox": [left, top, right - left, bottom - top], "area": (right - left) * (bottom - top)}


def _index(boxes: Sequence[dict[str, Any]]) -> Any:
    """Return boxes as COCO's code reads them, numbered from 1 on: it takes the number 0 for none."""
    from pycocotools.coco import COCO

    index = COCO()
    numbered = [{**box, "id": number} for number, box in enumerate(boxes, 1)]
    pictures = sorted({box["image_id"] for box in boxes})
    kinds = sorted({box["category_id"] for box in boxes})
    index.dataset = {
        "images": [{"id": number} for number in pictures],
        "categories": [{"id": kind} for kind in kinds],
        "annotations": numbered,
    }
    index.createIndex()
    return index
