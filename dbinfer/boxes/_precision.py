"""How good found boxes are: COCO's mean average precision, computed by COCO's own code (pycocotools)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dbinfer.boxes._labels import MOST
from dbinfer.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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

    # It tells the terminal about each of its steps
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
        {**_place(box), "image_id": number, "category_id": int(box[4]), "iscrowd": 0}
        for number, image in enumerate(images, 1)
        for box in image.true
    ]


def _found(images: Sequence[Boxes]) -> list[dict[str, Any]]:
    return [
        {**_place(box), "image_id": number, "category_id": int(box[5]), "score": float(box[4])}
        for number, image in enumerate(images, 1)
        for box in image.found
    ]


def _place(box: Any) -> dict[str, Any]:
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
