"""Turns a detector's outputs into objects with what belongs to each: its mask, or its keypoints."""

from __future__ import annotations

from typing import Any, Sequence

import cv2
import numpy as np

from ..errors import ImageError, ModelError
from ..image.crop import MOST_SIDE, pixels_of
from ..image.decode import reduction_of
from ..image.file import Header
from ..image.resize import Placement
from .detection import Way, detections, literal, way_to_image
from .mask import png


def instances(
    model: Any, outputs: Sequence[np.ndarray], placement: Placement, header: Header, _k: Any
) -> str:
    """Return the objects of one image as a literal of dbinfer.instance[].

    The manifest names the outputs: detections [1, N, 6]; then points [1, N, 3 points], each x and y in pixels of the
    input tensor and its score; or coefficients [1, N, M] and prototypes [1, M, height, width], of which each mask is
    the sum; or nothing.
    """
    named = dict(zip(model.manifest.outputs, outputs))
    of_rows = named.get("points", named.get("coefficients", outputs[0][:, :, :0]))
    prototypes = named.get("prototypes")
    _check(outputs[0], of_rows, prototypes, "points" in named)
    way = way_to_image(placement, header, reduction_of(header, model.decode.target))
    objects = detections(np.concatenate([outputs[0], of_rows], 2), model.manifest, way, header.size)
    # fields within a composite within an array
    if "points" in named:
        more = [',,\\"%s\\"' % points(one, way) for one in objects.rest]
    elif prototypes is not None:
        across, down = prototypes.shape[3] / model.manifest.width, prototypes.shape[2] / model.manifest.height
        # from the image to the prototypes
        back = Way(across / way.across, down / way.down, way.left, way.top)
        more = [
            ",\\\\\\\\x%s," % mask(one, prototypes[0], box, back, header.size).hex()
            for one, box in zip(objects.rest, objects.boxes)
        ]
    else:
        more = [",,"] * len(objects.scores)
    return literal(objects, model.layout, more)


def _check(rows: np.ndarray, of_rows: np.ndarray, prototypes: Any, threes: bool) -> None:
    fits = of_rows.ndim == 3 and of_rows.shape[:2] == rows.shape[:2] and not (threes and of_rows.shape[2] % 3)
    if prototypes is not None:
        fits = fits and prototypes.ndim == 4 and prototypes.shape[:2] == (1, of_rows.shape[2])
    if not fits:
        raise ModelError(
            "the model's outputs do not belong together: %s, %s%s"
            % (
                list(rows.shape),
                list(of_rows.shape),
                "" if prototypes is None else ", %s" % list(prototypes.shape),
            ),
            hint="Convert it with dbinfer convert --detector yolov8_pose or yolov8_segment.",
        )


def points(row: np.ndarray, way: Way) -> str:
    """Return the literal of a row's keypoints on the image as shown: {{x,y,score},...}."""
    found = row.reshape(-1, 3) * (way.across, way.down, 1) + (way.left, way.top, 0)
    return "{%s}" % ",".join("{%.9g,%.9g,%.9g}" % tuple(one) for one in found.astype(np.float32).tolist())


def mask(
    coefficients: np.ndarray, prototypes: np.ndarray, box: np.ndarray, back: Way, size: Sequence[int]
) -> bytes:
    """Return the mask within a box as a PNG, 255 where the sum of the prototypes is above 0: as large as crop cuts it.

    Args:
        back: from the image as shown, less left and top, to the prototypes.
    """
    # as they leave, so that whoever reads the detection finds the same pixels
    left, top, width, height = np.concatenate([box[:2], box[2:] - box[:2]]).astype(np.float32).tolist()
    x1, y1, x2, y2 = pixels_of((left, top, left + width, top + height), size)
    if max(x2 - x1, y2 - y1) > MOST_SIDE:
        raise ImageError(
            "a mask would be %d x %d pixels, but a side may have %d" % (x2 - x1, y2 - y1, MOST_SIDE)
        )
    values = np.tensordot(coefficients, prototypes, 1)
    # to OpenCV a pixel's middle is a whole number, to us a half
    matrix = np.array(
        [
            [back.across, 0, (x1 + 0.5 - back.left) * back.across - 0.5],
            [0, back.down, (y1 + 0.5 - back.top) * back.down - 0.5],
        ]
    )
    way = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    part = cv2.warpAffine(values, matrix, (x2 - x1, y2 - y1), flags=way, borderMode=cv2.BORDER_REPLICATE)
    pixels = (part > 0).view(np.uint8) * np.uint8(255)
    return png(pixels, (0, 0), (x2 - x1, y2 - y1))
