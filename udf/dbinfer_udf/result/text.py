"""Reads text: lines are found in a map of probabilities, as DB does (arXiv:1911.08947), and a line's characters in the
steps of a network that was trained with CTC.

Thresholds, the growth of boxes and what is too small are those of PaddleOCR and RapidOCR, whose networks these are.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Tuple

import cv2
import numpy as np

from ..errors import ModelError
from ..image.file import Header
from ..image.resize import Placement
from ..manifest import Manifest
from .detection import way_to_image
from .vectors import quoted

MOST_CONTOURS = 1000
LEAST_SIDE = 3  # of a line in pixels of the map; what is thinner is noise
BLANK = 0  # the class that CTC puts between two equal characters


class Line(NamedTuple):
    """A line of text.

    Attributes:
        corners: float64 (4, 2) in pixels of the image as shown: upper left, upper right, lower right, lower left.
        score: mean probability of its pixels.
    """

    corners: np.ndarray
    score: float


def map_size(shape: Sequence[int], labels: Sequence[str]) -> Tuple[int, int]:
    """Return height and width of the map for an image of the manifest's size.

    Raises:
        ModelError: it is not [1, 1, H, W] or [1, H, W, 1].
    """
    if len(shape) != 4 or shape[0] != 1 or 1 not in (shape[1], shape[3]):
        raise ModelError(
            f"the model's output has shape {list(shape)}, but that of a network that finds text is [1, 1, H, W]",
            hint="It gives each pixel the probability that it belongs to text, as DB does.",
        )
    return (shape[2], shape[3]) if shape[1] == 1 else (shape[1], shape[2])


def characters(shape: Sequence[int], labels: Sequence[str]) -> List[str]:
    """Return the text of each class.

    Raises:
        ModelError: the output is not [1, T, C] with a label for each class.
    """
    if len(shape) != 3 or shape[0] != 1 or shape[2] != len(labels):
        raise ModelError(
            f"the model's output has shape {list(shape)} and its manifest {len(labels)} labels, but a network that "
            "reads lines has the output [1, T, C] and a label for each of the C classes",
            hint="Convert it again with --labels @FILE: a line for each character, in the order of the classes.",
        )
    return ["", *labels[1:]]


def find_text(model: Any, output: np.ndarray, placement: Placement, header: Header, _k: Any) -> str:
    """Return the lines of one image in the order of reading, as a literal of dbinfer.text_line[] without texts."""
    found = lines(
        output.reshape(output.shape[1:3] if output.shape[3] == 1 else output.shape[2:]), model.manifest
    )
    way = way_to_image(placement, header, 1)
    shown = [
        line._replace(corners=line.corners * (way.across, way.down) + (way.left, way.top)) for line in found
    ]
    # whole pixels, as DB gives them; networks that read lines were trained on such parts
    whole = [line._replace(corners=np.clip(np.rint(line.corners), 0, header.size)) for line in shown]
    return literal(in_order([line for line in whole if _sides(line.corners).min() > LEAST_SIDE]))


def _sides(corners: np.ndarray) -> np.ndarray:
    """Return the lengths of the upper and the left side."""
    lengths: np.ndarray = np.hypot(*(corners[[1, 3]] - corners[0]).T)
    return lengths


def literal(found: Sequence[Line]) -> str:
    """Return the literal of dbinfer.text_line[]."""
    rows = [
        '"(,%.9g,\\"{%s}\\")"'
        % (line.score, ",".join("%.9g" % v for v in line.corners.astype(np.float32).flat))
        for line in found
    ]
    return "{%s}" % ",".join(rows)


def lines(probabilities: np.ndarray, manifest: Manifest) -> List[Line]:
    """Return the lines in a map, corners in its pixels.

    Args:
        probabilities: float32 (height, width).
    """
    text = (probabilities > manifest.pixel_threshold).astype(np.uint8)
    # letters whose pixels hardly touch are one line
    text = cv2.dilate(text, np.ones((2, 2), np.uint8))
    contours, _ = cv2.findContours(text, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = [_line(contour, probabilities, manifest) for contour in contours[:MOST_CONTOURS]]
    return [line for line in found if line is not None][: manifest.max_detections]


def _line(contour: np.ndarray, probabilities: np.ndarray, manifest: Manifest) -> Any:
    """Return the line that a contour surrounds, None where it is none."""
    box = cv2.minAreaRect(contour)
    if min(box[1]) < LEAST_SIDE:
        return None
    corners = cv2.boxPoints(box)
    score = _mean_within(probabilities, corners)
    if not score >= manifest.threshold:
        return None
    # networks are trained on shrunken lines; whole numbers, as in the code whose boxes recognisers have seen
    further = manifest.unclip_ratio * box[1][0] * box[1][1] / (box[1][0] + box[1][1])
    middle, (across, down), angle = cv2.minAreaRect(corners.astype(np.int32))
    grown = cv2.boxPoints((middle, (across + further, down + further), angle))
    return Line(_clockwise(grown.astype(np.float64)), score)


def _mean_within(probabilities: np.ndarray, corners: np.ndarray) -> float:
    height, width = probabilities.shape
    left, top = np.clip(np.floor(corners.min(0)).astype(int), 0, (width - 1, height - 1))
    right, bottom = np.clip(np.ceil(corners.max(0)).astype(int), 0, (width - 1, height - 1))
    inside = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(inside, [(corners - (left, top)).astype(np.int32)], 1)
    return float(cv2.mean(probabilities[top : bottom + 1, left : right + 1], inside)[0])


def _clockwise(corners: np.ndarray) -> np.ndarray:
    """Return corners from the upper left one on: of the two on the left the upper one."""
    across = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = (side[np.argsort(side[:, 1], kind="stable")] for side in (across[:2], across[2:]))
    return np.array([left[0], right[0], right[1], left[1]])


def in_order(found: Sequence[Line]) -> List[Line]:
    """Return lines as they are read: from top to bottom, and those of one height from left to right.

    Of one height is what has its middle between top and bottom of the one that begins the row.
    """
    rows: List[List[Line]] = []
    for line in sorted(found, key=lambda line: line.corners[:, 1].mean()):
        middle = line.corners[:, 1].mean()
        first = rows[-1][0].corners if rows else None
        # sides, not the highest and lowest corner: a long line that is a little turned spans many
        if first is not None and middle < (first[2, 1] + first[3, 1]) / 2:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: line.corners[:, 0].min())]


def read_line(model: Any, output: np.ndarray, placement: Placement, header: Header, _k: Any) -> str:
    """Return what a line says as a literal of dbinfer.reading."""
    text, score = decoded(output[0], model.layout)
    return "(%s,%.9g)" % (quoted(text), score)


def decoded(steps: np.ndarray, texts: Sequence[str]) -> Tuple[str, float]:
    """Return the text of the best class of each step, repetitions taken once and blanks left out, and its score.

    Args:
        steps: float32 (T, C), probabilities.
        texts: of each class.

    Returns:
        The score is the mean probability of the characters; 0 without any.
    """
    best = steps.argmax(1)
    there = best != BLANK
    there[1:] &= best[1:] != best[:-1]
    if not there.any():
        return "", 0.0
    return "".join(texts[at] for at in best[there]), float(steps.max(1)[there].mean())
