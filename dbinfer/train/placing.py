"""Boxes on their way from the image into the network's input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbinfer.boxes import Corners
from dbinfer.errors import DataError
from dbinfer_udf.detection import Way


def placed(found: Corners, way: Way, size: tuple[int, int], name: str) -> Corners:
    """Return boxes of the image as shown in pixels of the network's input: against the way of dbinfer.detect.

    Args:
        found: left, top, right, bottom and class; what reaches over the image's edge is cut off.
        way: from the input to the image.
        size: of the image as shown, width and height in pixels.
        name: what to call the image in a message.

    Raises:
        DataError: a box lies outside of the image.
    """
    outside = (found[:, :2] >= size).any(axis=1) | (found[:, 2:4] <= 0).any(axis=1)
    if outside.any():
        number = int(outside.argmax())
        x, y = found[number, :2]
        raise DataError(
            f"box {number + 1} of {name} begins at {x:g}, {y:g}, outside of the image of {size[0]} x {size[1]} pixels",
            "Boxes are in pixels of the image as it is shown, turned as its EXIF orientation says.",
        )
    corners = np.clip(found[:, :4], 0, [*size, *size]) - [way.left, way.top] * 2
    corners /= [way.across, way.down] * 2
    return np.column_stack([corners, found[:, 4]]).astype(np.float32)


def inside(found: Corners, frame: Sequence[float]) -> Corners:
    """Return the boxes whose centre lies within the frame, cut off at its edges: of the others little is to be seen.

    Args:
        frame: begins with x, y, width and height.
    """
    x, y, width, height = frame[:4]
    centres = (found[:, :2] + found[:, 2:4]) / 2
    kept = found[((centres >= (x, y)) & (centres < (x + width, y + height))).all(axis=1)]
    kept[:, :4] = np.clip(kept[:, :4], [x, y] * 2, [x + width, y + height] * 2)
    return kept
