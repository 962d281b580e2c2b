"""Draws what a model found on the image as shown, and returns a PNG: boxes with labels and scores, or a mask."""

from __future__ import annotations

import colorsys
import json
import unicodedata
from typing import Any, Dict, List, Optional, Tuple

import cv2
import numpy as np

from .errors import ModelError, UsageError
from .image import Decoder
from .image_limits import Limits
from .manifest import MOST_DETECTIONS

MOST_LETTERS = 60
# of a mask's colour in a pixel
COVER = 0.5
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_BLACK = (0, 0, 0)

Colour = Tuple[int, int, int]


def drawn(img: bytes, detections: Optional[str], mask: Optional[bytes], limits: Limits) -> bytes:
    """Return the image under the mask and with the boxes on it, the best on top.

    Args:
        detections: JSON of dbinfer.detection[]; None for none.
        mask: an image file of one channel, as large as the image, as dbinfer.segment makes it; None for none.

    Raises:
        ImageError: an image cannot be decoded, or is above the limits.
        UsageError: there are too many boxes, or the mask has another size.
    """
    boxes = _boxes(detections)
    picture, _ = Decoder("BGR", limits)(img)
    # a turn may leave a view, which OpenCV does not draw on
    picture = np.ascontiguousarray(picture)
    if mask is not None:
        picture = _masked(picture, Decoder("GRAY", limits)(mask)[0])
    put_on(picture, boxes)
    return _png(picture)


def put_on(picture: np.ndarray, boxes: List[Dict[str, Any]]) -> None:
    """Draw detections (by the names of their fields) on pixels BGR, which lie without gaps in memory."""
    # a picture of 100 or of 4000 pixels is looked at in the same window
    least = min(picture.shape[:2])
    for one in reversed(boxes):
        _draw(picture, one, max(1, round(least / 250)), max(0.35, least / 900))


def _boxes(detections: Optional[str]) -> List[Dict[str, Any]]:
    found = [one for one in json.loads(detections or "[]") if one is not None]
    if len(found) > MOST_DETECTIONS:
        raise UsageError(
            "there are %d boxes to draw, but %d are the most" % (len(found), MOST_DETECTIONS),
            hint="Draw the best: detections[1:100].",
        )
    return found


def _masked(picture: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the picture with a colour for each value of the mask but 0."""
    if values.shape != picture.shape[:2]:
        sizes = (values.shape[1], values.shape[0], picture.shape[1], picture.shape[0])
        raise UsageError(
            "the mask has %d x %d pixels, but the image has %d x %d" % sizes,
            hint="Draw the mask on the image that it was made of.",
        )
    table = np.array([colour(value) for value in range(256)], np.uint8)
    coloured = cv2.addWeighted(picture, 1 - COVER, table[values], COVER, 0)
    return np.where(values[:, :, None] > 0, coloured, picture)


def colour(number: int) -> Colour:
    """Return the colour of a class, BGR: neighbours are far apart on the circle of hues."""
    # by the golden ratio, and never dark: labels on it are black
    red, green, blue = colorsys.hsv_to_rgb(number * 0.61803399 % 1, 0.75, 1.0)
    return round(blue * 255), round(green * 255), round(red * 255)


def _draw(picture: np.ndarray, one: Dict[str, Any], thick: int, scale: float) -> None:
    height, width = picture.shape[:2]
    sides = [float("nan" if one[key] is None else one[key]) for key in ("x", "y", "width", "height")]
    if not np.isfinite(sides).all():
        return
    x, y, across, down = sides
    # whatever the numbers are, OpenCV gets small ones
    left, right = (round(min(max(side, -9), width + 9)) for side in (x, x + across))
    top, bottom = (round(min(max(side, -9), height + 9)) for side in (y, y + down))
    shade = colour(int(one["class"] or 0))
    cv2.rectangle(picture, (left, top), (right - 1, bottom - 1), shade, thick)
    _write(picture, words(one), (left, top), shade, scale)


def _write(picture: np.ndarray, text: str, corner: Tuple[int, int], shade: Colour, scale: float) -> None:
    """Write a text on its own ground above a corner, or below where there is no room."""
    stroke = max(1, round(scale * 1.5))
    (across, up), down = cv2.getTextSize(text, _FONT, scale, stroke)
    x = max(0, min(corner[0], picture.shape[1] - across))
    y = corner[1] - down if corner[1] >= up + 2 * down else corner[1] + up + down
    cv2.rectangle(picture, (x, y - up - down // 2), (x + across, y + down), shade, cv2.FILLED)
    cv2.putText(picture, text, (x, y), _FONT, scale, _BLACK, stroke, cv2.LINE_AA)


def words(one: Dict[str, Any]) -> str:
    """Return label and score in the letters that OpenCV's font has: ASCII."""
    name = one["label"] if one["label"] is not None else str(one["class"])
    # é is e with an accent; what has no such form is a question mark
    plain = unicodedata.normalize("NFKD", name[:MOST_LETTERS])
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    text = letters.encode("ascii", "replace").decode()
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if one["score"] is None else "%s %.2f" % (text, float(one["score"]))


def _png(picture: np.ndarray) -> bytes:
    # level 1: a photograph gets hardly smaller with more
    done, encoded = cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not done:
        raise ModelError("OpenCV cannot encode an image of %d x %d pixels" % picture.shape[1::-1])
    return bytes(encoded.tobytes())
