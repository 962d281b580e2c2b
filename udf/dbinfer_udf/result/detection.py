"""Turns a detector's output into boxes on the image as shown: threshold, suppression per class, mapping, literal."""

from __future__ import annotations

from itertools import repeat
from typing import Any, List, NamedTuple, Sequence, Tuple

import cv2
import numpy as np

from ..errors import ModelError
from ..image.decode import reduction_of
from ..image.file import Header
from ..image.resize import Placement
from ..manifest import Manifest
from .vectors import quoted

# columns of a row of the output: left, top, right, bottom in pixels of the input tensor, score, class
COLUMNS = 6
# suppression compares each pair: so many take 0.1 s at worst, and the boxes left out have the lowest scores
MOST_CANDIDATES = 10000
# above, float32 has no room for each whole number
MOST_CLASSES = 1 << 24
_NOTHING = np.empty((0, 0), np.float32)
# EXIF orientations that show the picture's last column first, and its last row
_MIRRORED, _UPSIDE_DOWN = (2, 3, 6, 7), (3, 4, 7, 8)


class Way(NamedTuple):
    """The way from the input tensor to the image as shown: x' = x * across + left, y' = y * down + top."""

    across: float
    down: float
    left: float
    top: float


def detector_labels(shape: Sequence[int], labels: Sequence[str]) -> Tuple[str, ...]:
    """Return each label as a field of a quoted element, decided once, at model load.

    Raises:
        ModelError: it is not [1, N, 6].
    """
    if len(shape) != 3 or shape[0] != 1 or shape[2] != COLUMNS:
        raise ModelError(
            f"the model's output has shape {list(shape)}, but a detector's is [1, N, 6]",
            hint="Convert the detector with dbinfer convert --task detection, which brings its outputs into that form.",
        )
    # a field within a composite within an array: quoted twice
    return tuple(quoted(quoted(label))[1:-1] for label in labels)


def candidates(output: np.ndarray, manifest: Manifest) -> np.ndarray:
    """Return the rows of an output that count, highest score first, still in pixels of the input tensor.

    Args:
        output: float32 [1, N, 6 or more]; a score of 0 is padding.
    """
    rows: np.ndarray = output[0]
    scores = rows[:, 4]
    # NaN is not at least the threshold
    rows = rows[(scores >= manifest.threshold) & (scores > 0)]
    with np.errstate(invalid="ignore"):
        usable = np.isfinite(rows[:, :COLUMNS]).all(axis=1) & (rows[:, 5] > -1) & (rows[:, 5] < MOST_CLASSES)
    rows = rows[usable]
    # stable: equals stay in the order of the network
    rows = rows[np.argsort(-rows[:, 4], kind="stable")]
    if manifest.iou_threshold < 1 and len(rows) > 1:
        return suppressed(rows[:MOST_CANDIDATES], manifest.iou_threshold)
    return rows


def suppressed(rows: np.ndarray, iou_threshold: float) -> np.ndarray:
    """Return the rows that no better one of the same class overlaps by more than the threshold."""
    boxes = rows[:, :4].astype(np.float64)
    # OpenCV moves the classes apart by the largest coordinate, and negative ones would meet again
    boxes -= boxes.min()
    boxes[:, 2:] -= boxes[:, :2]
    classes = rows[:, 5].astype(np.int32).tolist()
    kept = cv2.dnn.NMSBoxesBatched(boxes.tolist(), rows[:, 4].tolist(), classes, 0.0, iou_threshold)
    best: np.ndarray = rows[np.sort(np.asarray(kept, np.int64).ravel())]
    return best


def way_to_image(placement: Placement, header: Header, part: int) -> Way:
    """Return the way from the tensor to the image as shown.

    Args:
        part: a JPEG was decoded at 1/part; its last column and row may stand for a little more or less than
            the image has, on the side where its orientation shows them.
    """
    width, height = _decoded(header.width, part), _decoded(header.height, part)
    if header.orientation >= 5:
        width, height = height, width
    shown_width, shown_height = header.size
    left = shown_width - width if header.orientation in _MIRRORED else 0
    top = shown_height - height if header.orientation in _UPSIDE_DOWN else 0
    across = (placement.right - placement.left) * width / placement.width
    down = (placement.bottom - placement.top) * height / placement.height
    return Way(
        across,
        down,
        left + placement.left * width - placement.x * across,
        top + placement.top * height - placement.y * down,
    )


def _decoded(side: int, part: int) -> int:
    """Return how many pixels of a side the decoded picture stands for; see decode._without_rest."""
    return (round(side / part) or 1) * part


def on_image(rows: np.ndarray, way: Way, size: Tuple[int, int]) -> Tuple[np.ndarray, np.ndarray]:
    """Return boxes (left, top, right, bottom) on the image as shown, clipped to it, and their rows.

    What lies outside of the image, as in its padding, is left out.
    """
    scale = np.array([way.across, way.down, way.across, way.down])
    boxes = rows[:, :4] * scale + (way.left, way.top, way.left, way.top)
    np.clip(boxes, 0, (*size, *size), out=boxes)
    there = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    return boxes[there], rows[there]


class Detections(NamedTuple):
    """Objects of one image, highest score first.

    Attributes:
        boxes: float64 (n, 4): left, top, right, bottom in pixels of the image as shown.
        scores: of each.
        classes: of each.
        rest: float32 (n, ...), what the rows have beyond those columns.
    """

    boxes: np.ndarray
    scores: List[float]
    classes: List[int]
    rest: np.ndarray = _NOTHING


def detections(output: np.ndarray, manifest: Manifest, way: Way, size: Tuple[int, int]) -> Detections:
    """Return the objects that an output holds, at most the manifest's max_detections."""
    boxes, rows = on_image(candidates(output, manifest), way, size)
    boxes, rows = boxes[: manifest.max_detections], rows[: manifest.max_detections]
    return Detections(boxes, rows[:, 4].tolist(), rows[:, 5].astype(np.int32).tolist(), rows[:, COLUMNS:])


def literal(objects: Detections, labels: Sequence[str], more: Sequence[str] = ()) -> str:
    """Return the literal of dbinfer.detection[]; `labels` as detector_labels gives them.

    Args:
        more: further fields of each, with the commas before them.
    """
    corners = objects.boxes.astype(np.float32)
    # the size of the boxes as they leave, so that x + width is the right edge again
    sizes = (objects.boxes[:, 2:] - objects.boxes[:, :2]).astype(np.float32)
    rows = [
        # nine digits give the same float32 again
        '"(%s,%d,%.9g,%.9g,%.9g,%.9g,%.9g%s)"'
        # a class without a label: an empty field of a composite literal is NULL
        % (labels[number] if number < len(labels) else "", number, score, x, y, width, height, added)
        for number, score, (x, y, _, _), (width, height), added in zip(
            objects.classes, objects.scores, corners.tolist(), sizes.tolist(), more or repeat("")
        )
    ]
    return "{%s}" % ",".join(rows)


def detect(model: Any, output: np.ndarray, placement: Placement, header: Header, _k: Any) -> str:
    """Return the objects of one image of a model as a literal of dbinfer.detection[]."""
    way = way_to_image(placement, header, reduction_of(header, model.decode.target))
    return literal(detections(output, model.manifest, way, header.size), model.layout)
